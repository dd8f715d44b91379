//! The cost of `enqueue`: its start, and 500 messages at once.
//!
//! Beside it: 500 plain writes of files at once, and 500 processes that do nothing.
//!
//! `cargo bench --bench enqueue [-- FOLDER]`: the spool is made in this folder, and removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const ENQUEUE: &str = env!("CARGO_BIN_EXE_enqueue");
const MESSAGES: usize = 500;
const BODY: &[u8] = &[b'x'; 2000];

fn main() -> io::Result<()> {
    let chosen = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let folder = chosen.map_or_else(std::env::temp_dir, PathBuf::from).join("zsched-bench-enqueue");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("drop"))?;
    fs::write(folder.join("zmailer.conf"), format!("POSTOFFICE={}\n", folder.display()))?;
    let message = folder.join("message");
    fs::write(&message, [b"From a@b x\nSubject: x\n\n", BODY].concat())?;
    let zenv = folder.join("zmailer.conf");
    let enqueue = || -> io::Result<Child> {
        let mut command = Command::new(ENQUEUE);
        command.arg("-Z").arg(&zenv).arg("x.test/talk/list");
        command.stdin(File::open(&message)?).spawn()
    };
    let starts = |arguments: &[&str]| -> io::Result<f64> {
        let began = Instant::now();
        for _ in 0..MESSAGES {
            let mut command = Command::new(arguments[0]);
            command.args(&arguments[1..]).stdout(Stdio::null()).status()?;
        }
        Ok(began.elapsed().as_secs_f64() * 1e3 / MESSAGES as f64)
    };
    println!(
        "start and end, {:.2} ms; of true(1), {:.2} ms",
        starts(&[ENQUEUE, "-V"])?,
        starts(&["true"])?
    );
    let began = Instant::now();
    let plain = folder.join("plain");
    fs::create_dir(&plain)?;
    std::thread::scope(|scope| {
        let plain = &plain;
        let writers: Vec<_> =
            (0..MESSAGES).map(|number| scope.spawn(move || write(plain, number))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("it ends"))
    })?;
    let files = began.elapsed().as_secs_f64();
    println!("{MESSAGES} files at once, written, synced, renamed: {files:.2} s");
    let processes = time_at_once(|| Command::new("true").spawn())?;
    println!("{MESSAGES} processes of true(1) at once: {processes:.2} s");
    let messages = time_at_once(enqueue)?;
    let ratio = messages / (files + processes);
    println!("{MESSAGES} messages at once: {messages:.2} s, {ratio:.2} times files and processes");
    assert_eq!(fs::read_dir(folder.join("drop"))?.count(), MESSAGES);
    fs::remove_dir_all(folder)
}

/// Starts processes at once, and returns the seconds until all have ended.
fn time_at_once(start: impl Fn() -> io::Result<Child>) -> io::Result<f64> {
    let began = Instant::now();
    let running: Vec<Child> = (0..MESSAGES).map(|_| start()).collect::<io::Result<_>>()?;
    for mut child in running {
        assert!(child.wait()?.success());
    }
    Ok(began.elapsed().as_secs_f64())
}

fn write(folder: &Path, number: usize) -> io::Result<()> {
    let path = folder.join(format!("new{number}"));
    let mut file = File::create(&path)?;
    file.write_all(BODY)?;
    file.sync_all()?;
    fs::rename(&path, folder.join(number.to_string()))?;
    file.sync_all()
}
