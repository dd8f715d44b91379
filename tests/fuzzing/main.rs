//! Arbitrary bytes for everything that reads what others write: the saved corpus, and some mutation.
//!
//! `docs/fuzzing.md` says how to run more of it, how to reproduce a failure and how to add a target.

mod corpus;
mod mutation;
mod targets;

use targets::{TARGETS, Target};

/// One test for each target, so that they run side by side and say which failed.
macro_rules! tests {
    ($($name:ident)*) => {
        $(
            mod $name {
                #[test]
                fn takes_the_saved_inputs() {
                    super::corpus::run(super::targets::find(stringify!($name)));
                }

                #[test]
                fn takes_what_mutation_makes_of_them() {
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
    submission events
}

#[test]
fn every_target_is_tested_and_has_a_program() {
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
