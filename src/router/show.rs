//! What `router -t` and `router --try` print.

use crate::config_file::Installation;
use crate::directory::Directory;
use crate::expand::Expansion;
use crate::recipients::RoutedEnd;
use crate::say;
use std::io::{self, Write};
use zsched_format::printable;

/// Prints that the configuration can be used.
pub(crate) fn print_verdict(installation: &Installation, directory: &Directory, warnings: usize) {
    let warnings = match warnings {
        0 => "no warnings".to_string(),
        1 => "1 warning".to_string(),
        count => format!("{count} warnings"),
    };
    let (aliases, virtuals) = directory.counts();
    let name = installation.config_name();
    say(format_args!(
        "{name}: can be used, {aliases} aliases, {virtuals} virtual addresses, {warnings}"
    ));
}

/// Prints where addresses go. Returns 1 if one of them is refused or cannot be looked up.
pub(crate) fn try_addresses(directory: &Directory, addresses: &[String]) -> i32 {
    let mut status = 0;
    for address in addresses {
        let mut expansion = Expansion::new(directory, false);
        expansion.steps = Some(Vec::new());
        let result = expansion.add(address, "");
        for step in expansion.steps.iter().flatten() {
            print(&format!("{}{}", "  ".repeat(step.depth), step.text));
        }
        if let Err(error) = result {
            print(&format!("{address}: {error}"));
            status = 1;
        }
        let is_refused = |end: &RoutedEnd| matches!(end, RoutedEnd::Refused(_));
        if expansion.recipients.iter().any(|one| one.end.as_deref().is_some_and(is_refused)) {
            status = 1;
        }
    }
    status
}

fn print(line: &str) {
    // Standard output may be closed.
    drop(writeln!(io::stdout(), "{}", printable::line(line)));
}
