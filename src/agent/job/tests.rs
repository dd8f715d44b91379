use crate::testing::{TestJob, TestRun};
use crate::{Agent, Delivery, Halt, Job, Outcome, Scope, StopFlag, Verdict};
use expect_test::{Expect, expect};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use zsched_format::control_file::{Tag, mark};

const FILE: &str = "\
@ 0x00000007
i 7
o 0
s local - a@x 0
r           smtp h one 0
N NOTIFY=SUCCESS
r           smtp h two 0
r           smtp h three 0
m
H: x

";

/// Gives one job to an agent that does `work`. Checks its answers, then the recipients' lines and
/// the lines appended.
fn check(work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>, expected: &Expect) {
    check_stop(&StopFlag::default(), work, expected);
}

/// The same, for an agent that is stopped by `stop`.
fn check_stop(
    stop: &StopFlag,
    work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    expected: &Expect,
) {
    let spool = spool(FILE);
    let mut answers = Vec::new();
    let agent = Agent::new("test", Scope::channel("smtp")).with_postoffice(spool.path());
    agent.with_stop_flag(stop.clone()).run(&b"7\th\n"[..], &mut answers, work);
    let answers = String::from_utf8(answers).expect("text");
    let after = fs::read_to_string(spool.path().join("transport/7")).expect("read");
    let lines: Vec<&str> =
        after.lines().filter(|line| line.starts_with(['r', 'd'])).map(hide_time).collect();
    let text = format!("{answers}--\n{}\n", lines.join("\n")).replace('\x01', "^");
    let text = text.replace(&format!("test:{}:", std::process::id()), "test:PID:");
    expected.assert_eq(&text.replace('\t', " | "));
}

/// A POSTOFFICE with a message.
fn spool(control_file: &str) -> TempDir {
    let spool = tempfile::tempdir().expect("a folder");
    for (folder, text) in [("transport", control_file), ("queue", "body\n")] {
        fs::create_dir(spool.path().join(folder)).expect("create");
        fs::write(spool.path().join(folder).join("7"), text).expect("write");
    }
    spool
}

/// A `d` line from its notary data on.
fn hide_time(line: &str) -> &str {
    match line.strip_prefix("d ").and_then(|value| value.find('\t')) {
        Some(tab) => &line[2 + tab..],
        None => line,
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    Outcome::new(verdict, "1.2.3", 4, "why")
}

#[test]
fn each_reports_in_reverse_order() {
    let mut verdicts = [Verdict::Failed, Verdict::Deferred, Verdict::Delivered].into_iter();
    check(
        |job| {
            job.message()?;
            job.deliver_each(|_| outcome(verdicts.next().expect("three recipients")))
        },
        &expect![[r#"
            #hungry
            7/104 |  | error2 why
            7/79 | two^delayed^1.2.3 (why)^x-local; 4 (why)^ | deferred why
            7/37 |  | ok2 why
            #hungry
            --
            r+          smtp h one 0
            r           smtp h two 0
            r-          smtp h three 0
             | three^failed^1.2.3 (why)^x-local; 4 (why)^ | why
             | one^delivered^1.2.3 (why)^x-local; 4 (why)^ | why
        "#]],
    );
}

#[test]
fn settle_writes_the_same_without_locks() {
    check(
        |job| {
            job.report_together(|delivery| match delivery.user() {
                b"one" => outcome(Verdict::Relayed),
                b"two" => outcome(Verdict::FailedUnexplained),
                _ => outcome(Verdict::RetryAfter(Duration::from_secs(30))),
            });
            Ok(())
        },
        &expect![[r#"
            #hungry
            7/104 | three^delayed^1.2.3 (why)^x-local; 4 (why)^ | retryat +30 why
            7/79 |  | error2 why
            7/37 |  | ok2 why
            #hungry
            --
            r+          smtp h one 0
            r-          smtp h two 0
            r           smtp h three 0
             | two^failed^1.2.3 (why)^x-local; 4 (why)^ | why
             | one^relayed^1.2.3 (why)^x-local; 4 (why)^ | why
        "#]],
    );
}

#[test]
fn recipients_without_outcome_are_deferred() {
    check(
        |job| {
            let offset = job.deliveries().nth(1).expect("a second recipient").offset();
            job.report(offset, outcome(Verdict::DeferAll))?;
            job.report(offset, outcome(Verdict::Delivered))?;
            job.report(1, outcome(Verdict::Delivered))
        },
        &expect![[r#"
            #hungry
            7/79 | two^delayed^1.2.3 (why)^x-local; 4 (why)^ | deferall why
            7/104 | three^delayed^4.3.0 (the agent reported no outcome for this recipient)^x-local; 451 (the agent reported no outcome for this recipient)^ | deferred the agent reported no outcome for this recipient
            7/37 | one^delayed^4.3.0 (the agent reported no outcome for this recipient)^x-local; 451 (the agent reported no outcome for this recipient)^ | deferred the agent reported no outcome for this recipient
            #hungry
            --
            r           smtp h one 0
            r           smtp h two 0
            r           smtp h three 0
        "#]],
    );
}

#[test]
fn job_without_work_leaves_no_locks() {
    check(
        |_| Ok(()),
        &expect![[r#"
            #hungry
            #hungry
            --
            r           smtp h one 0
            r           smtp h two 0
            r           smtp h three 0
        "#]],
    );
}

#[test]
fn unexplained_failure_is_noted_by_scheduler() {
    check(
        |job| {
            job.deliver_each(|delivery| match delivery.user() {
                b"two" => outcome(Verdict::FailedUnexplained),
                _ => outcome(Verdict::DeferBack),
            })
        },
        &expect![[r#"
            #hungry
            7/104 | three^delayed^1.2.3 (why)^x-local; 4 (why)^ | deferback why
            7/79 | two^failed^1.2.3 (why)^x-local; 4 (why)^ | error why
            7/37 | one^delayed^1.2.3 (why)^x-local; 4 (why)^ | deferback why
            #hungry
            --
            r           smtp h one 0
            r-          smtp h two 0
            r           smtp h three 0
        "#]],
    );
}

/// The tags of the recipients of the job, as in the file.
fn tags(file: &File) -> String {
    let tag_at = |offset: u64| {
        let mut tag = [0];
        file.read_exact_at(&mut tag, offset + 1).expect("a recipient is there");
        char::from(tag[0])
    };
    [37, 79, 104].map(tag_at).iter().collect()
}

#[test]
fn each_locks_recipient_just_before_delivery() {
    let mut seen = Vec::new();
    check(
        |job| {
            job.message()?;
            let file = job.file.file.try_clone().expect("a descriptor");
            assert_eq!(tags(&file), "   ");
            job.deliver_each(|_| {
                seen.push(tags(&file));
                outcome(Verdict::Delivered)
            })
        },
        &expect![[r#"
            #hungry
            7/104 |  | ok3 why
            7/79 |  | ok3 why
            7/37 |  | ok2 why
            #hungry
            --
            r+          smtp h one 0
            r+          smtp h two 0
            r+          smtp h three 0
             | one^delivered^1.2.3 (why)^x-local; 4 (why)^ | why
        "#]],
    );
    assert_eq!(seen, ["  ~", " ~+", "~++"]);
}

#[test]
fn each_skips_recipient_locked_by_other_agent_and_sends_resync() {
    check(
        |job| {
            let file = job.file.file.try_clone().expect("a descriptor");
            mark::change_tag(&file, 79, Tag::Pending, Tag::Locked, 1).expect("writable");
            job.deliver_each(|_| outcome(Verdict::Delivered))
        },
        &expect![[r#"
            #hungry
            7/104 |  | ok3 why
            7/37 |  | ok2 why
            # test:PID: 7: other agents have locked some recipients
            #resync 7
            #hungry
            --
            r+          smtp h one 0
            r~     1    smtp h two 0
            r+          smtp h three 0
             | one^delivered^1.2.3 (why)^x-local; 4 (why)^ | why
        "#]],
    );
}

/// Gives a job for this control file to an agent that does `work`.
///
/// `work` also gets a descriptor of another process, opened before the job. Returns the users that
/// were delivered to.
fn delivered_beside_other_process(
    control_file: &str,
    before: impl Fn(&File),
    work: impl Fn(&mut Job<'_>, &File),
) -> Vec<String> {
    let spool = spool(control_file);
    let path = spool.path().join("transport/7");
    let other = File::options().read(true).write(true).open(&path).expect("open");
    before(&other);
    let mut users = Vec::new();
    let agent = Agent::new("test", Scope::channel("smtp")).with_postoffice(spool.path());
    agent.run(&b"7\n"[..], Vec::new(), |job| {
        work(job, &other);
        job.deliver_each(|delivery| {
            assert_not_locked(&other);
            users.push(String::from_utf8_lossy(delivery.user()).into_owned());
            outcome(Verdict::Delivered)
        })
    });
    users
}

fn assert_not_locked(other: &File) {
    other.try_lock().expect("the agent does not have the lock");
    other.unlock().expect("unlocked");
}

/// Locks the first recipient of the job, as another agent does.
fn take_first(other: &File) {
    let is_taken = mark::change_tag(other, 104, Tag::Pending, Tag::Locked, 1);
    assert!(is_taken.expect("writable"));
}

#[test]
fn small_file_is_locked_from_reading_to_first_recipient() {
    let users = delivered_beside_other_process(
        FILE,
        |_| {},
        |job, other| {
            job.message().expect("a message");
            assert_eq!(job.deliveries().count(), 3);
            assert!(other.try_lock().is_err());
        },
    );
    assert_eq!(users, ["three", "two", "one"]);
}

#[test]
fn recipient_taken_under_lock_of_other_agent_is_skipped() {
    let users = delivered_beside_other_process(
        FILE,
        |other| other.lock().expect("locked"),
        |_, other| {
            take_first(other);
            other.unlock().expect("unlocked");
        },
    );
    assert_eq!(users, ["two", "one"]);
}

#[test]
fn recipient_taken_by_agent_that_waited_in_vain_is_skipped() {
    let users = delivered_beside_other_process(
        FILE,
        |_| {},
        |job, other| {
            job.began -= mark::MAX_LOCK_WAIT;
            take_first(other);
        },
    );
    assert_eq!(users, ["two", "one"]);
}

#[test]
fn large_file_is_not_locked_at_start_of_job() {
    let users = delivered_beside_other_process(
        &large_file("h"),
        |_| {},
        |_, other| {
            assert_not_locked(other);
            mark::set_tag(other, 87, Tag::Done).expect("write");
        },
    );
    assert_eq!(users, ["two", "one"]);
}

#[test]
fn file_is_not_locked_while_recipients_are_reported_together() {
    delivered_beside_other_process(
        FILE,
        |_| {},
        |job, other| {
            job.report_together(|_| {
                assert_not_locked(other);
                outcome(Verdict::Failed)
            });
        },
    );
}

#[test]
fn stop_between_recipients_leaves_rest_unreported_and_unlocked() {
    let stop = StopFlag::default();
    check_stop(
        &stop,
        |job| {
            job.deliver_each(|_| {
                stop.request();
                outcome(Verdict::Delivered)
            })
        },
        &expect![[r#"
            #hungry
            7/104 |  | ok3 why
            --
            r           smtp h one 0
            r           smtp h two 0
            r+          smtp h three 0
        "#]],
    );
}

#[test]
fn stop_during_wait_leaves_recipient_unreported() {
    let stop = StopFlag::default();
    check_stop(
        &stop,
        |job| {
            job.deliver_each(|delivery| {
                stop.request();
                assert!(delivery.is_stopping());
                outcome(Verdict::Deferred)
            })
        },
        &expect![[r#"
            #hungry
            --
            r           smtp h one 0
            r           smtp h two 0
            r           smtp h three 0
        "#]],
    );
}

#[test]
fn stop_after_lock_of_all_unlocks_unreported() {
    let stop = StopFlag::default();
    check_stop(
        &stop,
        |job| {
            job.lock()?;
            assert_eq!(tags(&job.file.file), "~~~");
            job.report(79, outcome(Verdict::Failed))?;
            stop.request();
            assert!(job.is_stopping());
            Ok(())
        },
        &expect![[r#"
            #hungry
            7/79 |  | error2 why
            --
            r           smtp h one 0
            r-          smtp h two 0
            r           smtp h three 0
             | two^failed^1.2.3 (why)^x-local; 4 (why)^ | why
        "#]],
    );
}

#[test]
fn stop_during_settle_leaves_rest_unreported() {
    let stop = StopFlag::default();
    check_stop(
        &stop,
        |job| {
            job.report_together(|_| {
                stop.request();
                outcome(Verdict::Delivered)
            });
            Ok(())
        },
        &expect![[r#"
            #hungry
            7/104 |  | ok3 why
            --
            r           smtp h one 0
            r           smtp h two 0
            r+          smtp h three 0
        "#]],
    );
}

/// The answers to jobs for one large file; `between` runs during the first job.
fn answers_to(jobs: &'static str, between: impl Fn(&Path)) -> String {
    let spool = spool(&large_file("h"));
    let control = spool.path().join("transport/7");
    let mut answers = Vec::new();
    let agent = Agent::new("test", Scope::channel("smtp")).with_postoffice(spool.path());
    agent.run(jobs.as_bytes(), &mut answers, |job| {
        let taken = || Outcome::new(Verdict::Delivered, "2.0.0", 250, "taken");
        let delivered = job.deliver_each(|_| taken());
        between(&control);
        delivered
    });
    String::from_utf8(answers).expect("text").replace('\t', " ")
}

/// Three recipients with the hosts `h` and `other`, and headers that make the file large.
fn large_file(other: &str) -> String {
    let headers = "X-Filler: nothing of interest\n".repeat(1000);
    format!(
        "@ 0x00000007\ni 7\no 0\ns local - a@x 0\nr           smtp g one 0\nr           smtp h two 0\n\
         r           smtp {other} three 0\nm\n{headers}\n"
    )
}

#[test]
fn large_file_is_kept_but_its_tags_are_read_again() {
    let answers = answers_to("7\tg\n7\tH\n7\th\n", |control| {
        // Another process finishes the third.
        let file = File::options().write(true).open(control).expect("open");
        mark::set_tag(&file, 87, Tag::Done).expect("write");
    });
    expect![[r#"
        #hungry
        7/37  ok3 taken
        #hungry
        7/62  ok3 taken
        #hungry
        #resync 7
        #hungry
    "#]]
    .assert_eq(&answers);
}

#[test]
fn large_file_replaced_by_another_is_read_again() {
    let answers = answers_to("7\tg\n7\tnew\n", |control| {
        let new = control.with_extension("new");
        fs::write(&new, large_file("new")).expect("write");
        fs::rename(&new, control).expect("rename");
    });
    expect![[r#"
        #hungry
        7/37  ok3 taken
        #hungry
        7/87  ok3 taken
        #hungry
    "#]]
    .assert_eq(&answers);
}

#[test]
fn failure_is_not_noted_in_file_of_another_message() {
    let spool = spool(FILE);
    let control = spool.path().join("transport/7");
    let mut answers = Vec::new();
    let agent = Agent::new("test", Scope::channel("smtp")).with_postoffice(spool.path());
    agent.run(&b"7\th\n"[..], &mut answers, |job| {
        job.deliver_each(|_| {
            let new = control.with_extension("new");
            fs::write(&new, FILE).expect("write");
            fs::rename(&new, &control).expect("rename");
            Outcome::new(Verdict::Failed, "5.1.1", 550, "no")
        })
    });
    assert_eq!(fs::read_to_string(&control).expect("read"), FILE);
    let answers = String::from_utf8(answers).expect("text");
    let deferred = "deferred cannot append to the control file: it was replaced (no)";
    assert_eq!(answers.matches(deferred).count(), 3, "{answers}");
}

/// Runs an agent on the message of these tests.
fn run(work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>) -> TestRun {
    TestJob::new(FILE).run(&Scope::channel("smtp"), work)
}

#[test]
fn members_of_a_group_have_their_own_outcomes() {
    let run = run(|job| {
        job.try_deliver_groups(
            |_, _| true,
            |group| {
                let outcome = |delivery: &Delivery<'_>| match delivery.user() {
                    b"three" => Outcome::new(Verdict::Relayed, "2.0.0", 250, "yes"),
                    _ => Outcome::new(Verdict::Failed, "5.1.1", 550, "no"),
                };
                // In reverse file order; the last one is forgotten.
                Ok(group[..2].iter().map(outcome).collect())
            },
        )
    });
    assert_eq!((run.tag("three"), run.tag("two"), run.tag("one")), ('+', '-', ' '));
    assert!(run.report("one").text.contains("no outcome"));
}

#[test]
fn remote_host_is_reported_with_successes() {
    let run = run(|job| {
        job.deliver_each(|_| {
            Outcome::new(Verdict::Relayed, "2.0.0", 250, "yes")
                .with_remote_host("dns; mx.test (192.0.2.1|25)")
                .with_agent("test")
        })
    });
    let report = run.report("two");
    assert_eq!(report.status, "ok3");
    assert_eq!(report.notary[4], "dns; mx.test (192.0.2.1|25)");
    assert_eq!(report.notary[5], format!("test[{}]", std::process::id()));
}
