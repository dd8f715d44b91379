//! Tests of the program `submit` that need no scheduler.
//!
//! `tests/integration/submit.rs` has the others.

use std::process::Command;

#[test]
fn missing_recipient_is_usage_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_submit")).output().expect("submit starts");
    assert_eq!(output.status.code(), Some(64), "EX_USAGE of sysexits.h");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("<RECIPIENT>"), "{text}");
}
