//! Tests of the program `enqueue` that need no drop folder.
//!
//! `tests/integration/enqueue.rs` has the others.

use std::process::Command;

#[test]
fn version_is_printed_on_standard_output() {
    let output = Command::new(env!("CARGO_BIN_EXE_enqueue")).arg("-V").output();
    let output = output.expect("enqueue starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, format!("enqueue {}\n", env!("CARGO_PKG_VERSION")));
}
