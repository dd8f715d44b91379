//! The command line of a benchmark: `--name value`. Other words, which `cargo bench` adds, are
//! ignored.

// Not every benchmark uses all of it.
#![allow(dead_code)]

use std::path::PathBuf;
use std::str::FromStr;

/// The words after the name of the program.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn new() -> Arguments {
        Arguments(std::env::args().skip(1).collect())
    }

    /// Returns true if a word is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    /// Returns the word behind a name.
    pub fn value(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|argument| argument == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    /// Returns the number behind a name, or a default.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> T {
        let parse = |value: &str| {
            value.parse().unwrap_or_else(|_| panic!("{name} is followed by a number"))
        };
        self.value(name).map_or(default, parse)
    }

    /// Returns the folder for spools: the one behind `--folder`, or one in memory.
    pub fn folder(&self) -> PathBuf {
        self.value("--folder").map_or(PathBuf::from("/dev/shm"), PathBuf::from)
    }
}
