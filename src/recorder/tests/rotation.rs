//! Rotation of recording files.

use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn each_file_is_replayed_on_its_own() {
    for seed in 100..104 {
        let (_folder, files) = record(seed, 3000, RotationLimits { size: 15_000, keep_files: 100 });
        assert!(files.len() > 5, "{} files", files.len());
        let mut last = START;
        for file in &files {
            let recording = Recording::open(file).expect("a recording");
            assert!(recording.header.started >= last, "one begins where the other ends");
            let mut replay = Replay::new(recording).expect("its begin is good");
            let played = replay
                .run(&mut ())
                .unwrap_or_else(|error| panic!("seed {seed}, {}: {error}", file.display()));
            assert_eq!(played.ending, RecordingEnd::Whole);
            last = played.last;
        }
    }
}

#[test]
fn rotation_keeps_limited_number_of_private_files() {
    let (folder, files) = record(7, 3000, RotationLimits { size: 15_000, keep_files: 2 });
    assert_eq!(files.len(), 3);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 3);
    for file in files {
        let data = std::fs::metadata(&file).expect("it is there");
        assert_eq!(data.permissions().mode() & 0o7777, 0o600);
        assert!(data.len() < 200_000, "{} bytes", data.len());
    }
}

#[test]
fn existing_regular_file_is_renamed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("r");
    std::fs::write(folder.path().join("r.1"), "oldest").expect("written");
    let create = |keep| {
        Recorder::create(&path, RotationLimits { size: 1, keep_files: keep }, context()).map(drop)
    };
    create(2).expect("a file");
    assert!(!folder.path().join("r.2").exists(), "nothing had to make room");
    std::fs::remove_file(folder.path().join("r.1")).expect("removed");
    std::fs::write(&path, "first").expect("written");
    create(2).expect("a file");
    create(2).expect("a file");
    assert_eq!(std::fs::read_to_string(folder.path().join("r.2")).expect("kept"), "first");
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("a folder in its place");
    let error = create(2).expect_err("no file");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

/// A full disk pauses only the recording, which resumes later and reports the lost events.
#[test]
fn recording_resumes_when_disk_has_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("r");
    let limits = RotationLimits { size: 15_000, keep_files: 100 };
    let recorder = Recorder::create(&path, limits, context()).expect("a file");
    let mut rehearsal = Rehearsal::new(recorder, 5);
    // No file can be created in a missing folder.
    let elsewhere = folder.path().with_extension("elsewhere");
    std::fs::rename(folder.path(), &elsewhere).expect("renamed");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !rehearsal.is_paused() {
        rehearsal.step();
        assert!(std::time::Instant::now() < deadline, "it does not notice");
    }
    std::fs::rename(&elsewhere, folder.path()).expect("renamed back");
    while rehearsal.is_paused() {
        rehearsal.step();
        assert!(std::time::Instant::now() < deadline, "it does not go on");
    }
    (0..100).for_each(|_| rehearsal.step());
    rehearsal.finish();
    let recording = Recording::open(&path).expect("a recording");
    assert!(recording.header.lost > 0);
    let played = Replay::new(recording).expect("its begin is good").run(&mut ());
    assert!(played.expect("nothing differs").events > 100);
}
