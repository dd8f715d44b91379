//! Recordings that are made, read, and damaged.

mod format;
mod rehearsal;
mod rotation;

use super::*;
use rehearsal::Rehearsal;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use zsched_config::{AccountKind, Config, ConfigContext, Zenv};
use zsched_core::Settings;
use zsched_format::time::Timestamp;

const START: Timestamp = Timestamp::from_seconds(1_795_255_200);

/// The accounts of a system with one user and one group.
fn context() -> ConfigContext {
    ConfigContext {
        zenv: Zenv::from_pairs([("AGENTS", "/agents"), ("B", "2")]),
        is_root: true,
        effective_user: 0,
        effective_group: 0,
        find_id: Arc::new(|kind, name| match kind {
            AccountKind::User => Ok((name == "somebody").then_some(1234)),
            AccountKind::Group => Ok((name == "people").then_some(5678)),
        }),
    }
}

fn config(text: &str) -> Rc<Config> {
    let loaded = Config::parse(Path::new("/etc/scheduler.cf"), text.as_bytes(), &context());
    Rc::new(loaded.unwrap_or_else(|errors| panic!("{errors:?}")).config)
}

/// Settings of a rehearsal with this seed.
fn settings(seed: u64) -> Settings {
    Settings {
        seed,
        max_agents: 12,
        log_finished_messages: true,
        record_attempts: true,
        reload_step: 2,
        ..Settings::default()
    }
}

/// Records a rehearsal. Returns the folder and the files, oldest first.
fn record(seed: u64, steps: usize, limits: RotationLimits) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("recording");
    let recorder = Recorder::create(&path, limits, context()).expect("a file");
    let mut rehearsal = Rehearsal::new(recorder, seed);
    for _ in 0..steps {
        rehearsal.step();
    }
    rehearsal.finish();
    let older =
        (1..=limits.keep_files).map(|number| folder.path().join(format!("recording.{number}")));
    let mut files: Vec<PathBuf> = std::iter::once(path).chain(older).collect();
    files.retain(|file| file.exists());
    files.reverse();
    (folder, files)
}

/// Records a rehearsal in a single file.
fn record_whole(seed: u64, steps: usize) -> Vec<u8> {
    let (_folder, files) = record(seed, steps, RotationLimits { size: u64::MAX, keep_files: 0 });
    assert_eq!(files.len(), 1);
    std::fs::read(&files[0]).expect("read")
}

fn replay(recording: &[u8]) -> Result<ReplaySummary, ReplayError> {
    let recording = Recording::new(Cursor::new(recording), recording.len() as u64)?;
    Replay::new(recording)?.run(&mut ())
}

#[test]
fn replay_repeats_all_decisions() {
    for seed in 0..8 {
        let recording = record_whole(seed, 2000);
        let played = replay(&recording).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(played.events > 1000 && played.decisions > 500, "{played:?}");
        assert_eq!(played.ending, RecordingEnd::Whole);
    }
}

/// The contents of all frames of a recording.
fn frames(mut recording: &[u8]) -> Vec<Vec<u8>> {
    assert_eq!(frame::read_start(&mut recording).expect("read"), Some(FORMAT));
    let mut frames = Vec::new();
    loop {
        let left = recording.len() as u64;
        match frame::read(&mut recording, left).expect("read") {
            frame::FrameRead::Frame(contents) => frames.push(contents),
            other => {
                assert_eq!(other, frame::FrameRead::End);
                return frames;
            }
        }
    }
}

/// A recording with these frames.
fn of_frames(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut recording = Vec::new();
    frame::write_start(&mut recording).expect("written");
    frames.iter().for_each(|frame| frame::write(&mut recording, frame).expect("written"));
    recording
}

/// A changed decision is detected even if the check value of its frame is corrected.
#[test]
fn replay_detects_changed_decision() {
    let mut frames = frames(&record_whole(3, 4000));
    let middle = frames.len() / 2;
    let block = &mut frames[middle];
    let mut read = 0;
    loop {
        let (_, _, verdict, rest) = entry::read(&block[read..], START).expect("an entry");
        read = block.len() - rest.len();
        if verdict.count > 0 {
            break;
        }
    }
    block[read - 1] ^= 1;
    let Err(ReplayError::Different(difference)) = replay(&of_frames(&frames)) else {
        panic!("not noticed")
    };
    assert!(difference.replayed.number > 500);
    let text = difference.to_string();
    let begin = format!("event {}, at offset ", difference.replayed.number);
    assert!(text.starts_with(&begin), "{text}");
    assert!(text.contains("; replayed decisions: "), "{text}");
}

/// Another seed is another core: the next entry of `retries` is a decision.
#[test]
fn replay_detects_other_seed() {
    let mut recorded = frames(&record_whole(5, 4000));
    recorded[1] = frames(&record_whole(4, 0)).swap_remove(1);
    assert!(matches!(replay(&of_frames(&recorded)), Err(ReplayError::Different(_))));
}

#[test]
fn recorded_configuration_is_read_on_other_system() {
    let text =
        "*/*\n\tuser=somebody group=people interval=1m\nc/*\n\tcommand=\"${AGENTS}/x ${B}\"\n";
    let config = config(text);
    let source = ConfigSource::of(&config, &context());
    let bytes = postcard::to_stdvec(&source).expect("written");
    let again: ConfigSource = postcard::from_bytes(&bytes).expect("read");
    assert_eq!(again, source);
    let read = again.read().expect("nobody knows these users here, but that does not matter");
    let clause = |config: &Config| config.select(b"c", b"h").expect("it matches");
    assert_eq!(clause(&read), clause(&config));
    assert_eq!(clause(&read).user, Some(1234));
}
