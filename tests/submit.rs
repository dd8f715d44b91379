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

#[test]
fn version_and_completions_are_printed_on_standard_output() {
    let printed = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_submit")).args(arguments).output();
        let output = output.expect("submit starts");
        assert_eq!(
            (output.status.code(), &output.stderr[..]),
            (Some(0), &b""[..]),
            "{arguments:?}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(printed(&["--version"]), format!("submit {}\n", env!("CARGO_PKG_VERSION")));
    assert!(printed(&["--completions", "bash"]).contains("--next-host"));
}
