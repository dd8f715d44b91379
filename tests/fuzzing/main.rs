//! Arbitrary bytes for all parsers of external input: a saved corpus, and some mutation.
//!
//! `docs/fuzzing.md` says how to run more of it, reproduce a failure, and add a target.

mod corpus;
mod mutation;
mod random_sessions;
mod targets;

use targets::{TARGETS, Target};

/// Defines tests for each target.
///
/// They run in parallel, and a failure names its target.
macro_rules! tests {
    ($($name:ident)*) => {
        $(
            mod $name {
                #[test]
                fn saved_inputs_pass() {
                    super::corpus::run(super::targets::find(stringify!($name)));
                }

                #[test]
                fn mutated_inputs_pass() {
                    super::mutation::run(super::targets::find(stringify!($name)));
                }
            }
        )*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

tests! {
    configuration zenv control_file agent_line agent_output mailq_answer control_request v2_request auth_file
    spool_name
    submission smtp_session smtp_replies events
}

#[test]
fn every_target_has_tests_and_program() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target: &Target| target.name).collect();
    assert_eq!(names, TESTED);
    let programs = format!("{}/fuzz/fuzz_targets", zsched_tests::source().display());
    let mut found: Vec<String> = std::fs::read_dir(programs)
        .expect("the folder of programs")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    found.sort();
    names.sort();
    assert_eq!(found, names.iter().map(|name| format!("{name}.rs")).collect::<Vec<String>>());
}
