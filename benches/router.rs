//! Throughput of the router: submissions in `router/`, until all have a control file.
//!
//! `cargo bench --bench router [-- FOLDER]`: the spool is made in this folder, and removed.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use zsched_spool::Spool;

const MESSAGES: usize = 10_000;
const RECIPIENTS: usize = 100_000;

fn main() -> io::Result<()> {
    let chosen = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let folder = chosen.map_or_else(std::env::temp_dir, PathBuf::from).join("zsched-bench-router");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let spool = Spool::new(&folder);
    spool.create()?;
    fs::write(folder.join("router.cf"), "hostname here.test\nusers any\n")?;
    for number in 0..MESSAGES {
        let text = format!(
            "from <a@here.test>\nto <b{number}@host{}.test>\nenv-end\nFrom: a@here.test\n\
             Subject: {number}\n\n{}",
            number % 100,
            "A line of a short body.\n".repeat(40)
        );
        fs::write(spool.router().join(number.to_string()), text)?;
    }
    let seconds = route(&folder)?;
    println!("{MESSAGES} messages: {:.0} a second", MESSAGES as f64 / seconds);
    let mut text = String::from("from <a@here.test>\n");
    for number in 0..RECIPIENTS {
        writeln!(text, "to <b{number}@host{}.test>", number % 1000).map_err(io::Error::other)?;
    }
    fs::write(spool.router().join("large"), text + "env-end\nSubject: large\n\n")?;
    println!("a message with {RECIPIENTS} recipients: {:.2} s", route(&folder)?);
    fs::remove_dir_all(folder)
}

/// Routes what is there. Returns the time in seconds.
fn route(folder: &Path) -> io::Result<f64> {
    let began = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_router"))
        .arg("--once")
        .arg("-P")
        .arg(folder)
        .arg("-f")
        .arg(folder.join("router.cf"))
        .stderr(Stdio::null())
        .status()?;
    assert!(status.success(), "{status}");
    Ok(began.elapsed().as_secs_f64())
}
