use super::*;
use crate::{Delivery, Outcome, Verdict};

const FILE: &str = "\
@ 0x00000007
i 4711-a
o 12
l <id@x>
R HDRS
n ENV+3D1
s local - alice@x 0
r           smtp h ann 0
N NOTIFY=SUCCESS ORCPT=rfc822;ann@x
r           smtp H bob 0
r           smtp other cy 0
r+          smtp h done 0
r           fax h eve 0
m
H: x

";

fn smtp() -> Scope {
    Scope::channel("smtp")
}

fn delivered() -> Outcome {
    Outcome::new(Verdict::Delivered, "2.0.0", 250, "delivered")
}

fn refused() -> Outcome {
    Outcome::new(Verdict::DeferAll, "4.4.1", 421, "connection refused")
}

fn users(reports: &[TestReport]) -> Vec<(&str, &str)> {
    reports.iter().map(|report| (report.user.as_str(), report.status.as_str())).collect()
}

fn tags(run: &TestRun) -> String {
    run.tags.iter().map(|(_, tag)| tag).collect()
}

#[test]
fn run_returns_reports_tags_and_notes() {
    let run =
        TestJob::new(FILE).with_host("h").run(&smtp(), |job| job.deliver_each(|_| delivered()));
    assert_eq!(users(&run.reports), [("bob", "ok3"), ("ann", "ok2")]);
    assert_eq!((tags(&run).as_str(), run.tag("ann")), ("++ + ", '+'));
    let [note] = &run.notes[..] else { panic!("one note: {:?}", run.notes) };
    assert_eq!((note.user.as_str(), note.text.as_str()), ("ann", "delivered"));
    let expected = ["ann", "delivered", "2.0.0 (delivered)", "x-local; 250 (delivered)", ""];
    assert_eq!(note.notary, expected);
    assert_eq!(run.report("ann").notary, [""; 0]);
    assert!(run.log.is_empty() && !run.requested_resync && run.submissions.is_empty());
    assert!(String::from_utf8_lossy(&run.control_file).starts_with(&FILE[..40]));
}

#[test]
fn body_has_fields_of_recipient() {
    let file = FILE.replacen("\nN ", "\nN MERGE=name+3DBob+09end+3DBye ", 1);
    let run =
        TestJob::new(file).with_body("Dear {{name}},\n{{end}}, {{none}}\n").run(&smtp(), |job| {
            let message = job.message()?;
            let deliveries: Vec<_> = job.deliveries().collect();
            let [cy, bob, ann] = &deliveries[..] else { panic!("three recipients") };
            assert!(bob.has_same_message(cy) && !bob.has_same_message(ann));
            let [bob, ann] = [bob, ann].map(|delivery| {
                std::io::read_to_string(delivery.body(&message)).expect("the body")
            });
            assert_eq!(bob, "Dear {{name}},\n{{end}}, {{none}}\n");
            assert_eq!(ann, "Dear Bob,\nBye, {{none}}\n");
            drop(deliveries);
            job.deliver_each(|_| Outcome::new(Verdict::Delivered, "2.0.0", 250, "delivered"))
        });
    assert!(run.reports.len() > 1);
}

#[test]
fn work_gets_data_of_message() {
    let run = TestJob::new(FILE).with_body("body\n").run(&smtp(), |job| {
        let message = job.message()?;
        job.deliver_each(|delivery| {
            for _ in 0..2 {
                let body = std::io::read_to_string(delivery.body(&message)).expect("the body");
                assert_eq!(body, "body\n");
            }
            assert_eq!(
                (delivery.headers(), delivery.sender()),
                (&b"H: x\n"[..], Some(&b"alice@x"[..]))
            );
            assert_eq!(delivery.envelope_id(), Some(&b"ENV+3D1"[..]));
            assert_eq!(
                (delivery.return_mode(), delivery.log_id()),
                (Some(&b"HDRS"[..]), Some(&b"<id@x>"[..]))
            );
            let original = delivery.notify().original_recipient;
            assert_eq!(original.is_some(), delivery.user() == b"ann");
            assert!(message.spool_id().to_string().starts_with("S4711"));
            delivered()
        })
    });
    assert_eq!(users(&run.reports), [("cy", "ok3"), ("bob", "ok3"), ("ann", "ok2")]);
}

#[test]
fn missing_message_file_fails_all_recipients() {
    let run = TestJob::new(FILE).without_message_file().run(&smtp(), |job| {
        job.message()?;
        panic!("there is no message");
    });
    assert_eq!(users(&run.reports), [("cy", "error2"), ("bob", "error2"), ("ann", "error2")]);
    assert_eq!((tags(&run).as_str(), run.requested_resync), ("---+ ", true));
    assert!(run.log[0].contains("there is no message file"), "{:?}", run.log);
}

#[test]
fn halt_with_outcome_reports_rest() {
    let run = TestJob::new(FILE).run(&smtp(), |job| {
        let bob = job.deliveries().find(|delivery| delivery.user() == b"bob").expect("bob");
        let offset = bob.offset();
        job.report(offset, delivered())?;
        Err(refused())?
    });
    let expected = [("bob", "ok3"), ("cy", "deferall"), ("ann", "deferall")];
    assert_eq!((&users(&run.reports)[..], tags(&run).as_str()), (&expected[..], " + + "));
    assert!(!run.requested_resync);
}

#[test]
fn halt_without_locks_reports_all() {
    let failed =
        || Outcome::new(Verdict::Failed, "5.4.4".to_string(), 550, "no such host".to_string());
    let run = TestJob::new(FILE).run(&smtp(), |_| Err(failed().into()));
    assert_eq!(users(&run.reports), [("cy", "error2"), ("bob", "error2"), ("ann", "error2")]);
    assert_eq!((tags(&run).as_str(), run.notes.len()), ("---+ ", 3));
}

#[test]
fn halt_during_delivery_reports_current_recipient_too() {
    let run = TestJob::new(FILE).run(&smtp(), |job| {
        job.try_deliver_each(|delivery| match delivery.user() {
            b"cy" => Ok(delivered()),
            _ => Err(refused().into()),
        })
    });
    let expected = [("cy", "ok3"), ("bob", "deferall"), ("ann", "deferall")];
    assert_eq!((&users(&run.reports)[..], tags(&run).as_str()), (&expected[..], "  ++ "));
}

#[test]
fn halt_with_resync_defers_locked_recipients_only() {
    let lock_and_halt = |locks: bool| {
        TestJob::new(FILE).run(&smtp(), |job| {
            if locks {
                job.lock()?;
            }
            Err(Halt::resync("its headers make no sense"))
        })
    };
    let run = lock_and_halt(false);
    assert_eq!((users(&run.reports).len(), tags(&run).as_str()), (0, "   + "));
    assert_eq!(
        (&run.log[..], run.requested_resync),
        (&["4711-a: its headers make no sense".to_string()][..], true)
    );
    let run = lock_and_halt(true);
    assert_eq!(users(&run.reports), [("cy", "deferred"), ("bob", "deferred"), ("ann", "deferred")]);
    assert_eq!((tags(&run).as_str(), run.requested_resync), ("   + ", true));
}

#[test]
fn stopped_agent_does_not_report_deferral_of_halt() {
    for (locks, verdict, count) in
        [(false, Verdict::Deferred, 0), (true, Verdict::Deferred, 0), (false, Verdict::Failed, 3)]
    {
        let stop = StopFlag::default();
        let run = TestJob::new(FILE).with_stop_flag(stop.clone()).run(&smtp(), |job| {
            if locks {
                job.lock()?;
            }
            stop.request();
            Err(Outcome::new(verdict, "x", 0, "interrupted").into())
        });
        assert_eq!(run.reports.len(), count, "{verdict:?}");
        assert_eq!(tags(&run), if count == 0 { "   + " } else { "---+ " });
    }
}

#[test]
fn resubmitted_message_is_returned() {
    let run = TestJob::new(FILE).with_host("other").with_body("body\n").run(&smtp(), |job| {
        let message = job.message()?;
        job.deliver_each(|delivery| match delivery.resubmit(&message) {
            Ok(number) => Outcome::new(Verdict::PassedOn, "2.2.0", 250, format!("as {number}")),
            Err(error) => Outcome::system_error("cannot resubmit", &error),
        })
    });
    assert_eq!(tags(&run), "  ++ ");
    let expected =
        "envid ENV+3D1\nnotaryret HDRS\nfrom <alice@x>\nto <cy>\nenv-end\nH: x\n\nbody\n";
    assert_eq!(run.submissions, [expected]);
}

/// The envelope of a list is not that of the sender (RFC 3461, 5.2.7.3).
#[test]
fn members_of_list_do_not_get_envelope_of_sender() {
    let list = "s local - owner-list@x 0\nr           smtp h member 0\nm\nH: x\n\n";
    let run = TestJob::new(format!("{FILE}{list}")).with_body("body\n").run(&smtp(), |job| {
        let message = job.message()?;
        job.deliver_each(|delivery| {
            let is_member = delivery.user() == b"member";
            let parameters = (delivery.envelope_id(), delivery.return_mode());
            let expected = (!is_member).then_some((&b"ENV+3D1"[..], &b"HDRS"[..])).unzip();
            assert_eq!(parameters, expected);
            if !is_member {
                return delivered();
            }
            match delivery.resubmit(&message) {
                Ok(_) => Outcome::new(Verdict::PassedOn, "2.2.0", 250, "handed back"),
                Err(error) => Outcome::system_error("cannot hand back", &error),
            }
        })
    });
    let expected = "from <owner-list@x>\nto <member>\nenv-end\nH: x\n\nbody\n";
    assert_eq!(run.submissions, [expected]);
}

#[test]
fn scope_without_recipients_requests_resync() {
    let run = TestJob::new(FILE).run(&Scope::channel("uucp"), |_| panic!("no work"));
    assert!(run.requested_resync && run.reports.is_empty());
    assert_eq!(run.control_file, FILE.as_bytes());
}

#[test]
fn failed_write_ends_agent_after_job() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let agent = Agent::new("test", smtp()).with_postoffice("/nonexistent");
    agent.run(&b"7\th\n7\th\n"[..], Closed, |_| panic!("the scheduler has gone"));
}

#[test]
fn temporary_folder_is_removed() {
    let spool = TestSpool::create();
    let path = spool.0.clone();
    assert!(path.join("router").exists());
    drop(spool);
    assert!(!path.exists());
}

#[test]
fn groups_share_delivery_and_outcome() {
    let mut groups = Vec::new();
    let run = TestJob::new(FILE).run(&smtp(), |job| {
        job.deliver_groups(
            |group, next| group.len() < 2 && group[0].has_same_message(next),
            |group| {
                groups.push(group.iter().map(|one| one.user().to_vec()).collect::<Vec<_>>());
                if group.len() == 2 { delivered() } else { refused() }
            },
        )
    });
    assert_eq!(groups, [vec![b"cy".to_vec(), b"bob".to_vec()], vec![b"ann".to_vec()]]);
    assert_eq!(users(&run.reports), [("cy", "ok3"), ("bob", "ok3"), ("ann", "deferall")]);
    assert_eq!((tags(&run).as_str(), run.requested_resync), (" +++ ", false));
}

#[test]
fn stopped_group_is_left_to_other_agents() {
    let stop = StopFlag::default();
    let run = TestJob::new(FILE).with_stop_flag(stop.clone()).run(&smtp(), |job| {
        job.deliver_groups(
            |_, _| true,
            |_| {
                stop.request();
                refused()
            },
        )
    });
    assert_eq!((run.reports.len(), tags(&run).as_str()), (0, "   + "));
}

#[test]
fn resubmission_has_all_recipients_of_group() {
    let run = TestJob::new(FILE).with_body("body\n").run(&smtp(), |job| {
        let message = job.message()?;
        job.deliver_groups(
            |group, next| group[0].has_same_message(next),
            |group| match Delivery::resubmit_together(group, &message) {
                Ok(_) => Outcome::new(Verdict::PassedOn, "2.2.0", 250, "handed back"),
                Err(error) => Outcome::system_error("cannot hand back", &error),
            },
        )
    });
    assert_eq!(tags(&run), "++++ ");
    let expected = "envid ENV+3D1\nnotaryret HDRS\nfrom <alice@x>\nto <cy>\nto <bob>\n\
                    todsn NOTIFY=SUCCESS ORCPT=rfc822;ann@x\nto <ann>\nenv-end\nH: x\n\nbody\n";
    assert_eq!(run.submissions, [expected]);
}

#[test]
fn outcome_without_report_writes_no_note() {
    for verdict in [Verdict::Delivered, Verdict::Failed] {
        let run = TestJob::new(FILE).run(&smtp(), |job| {
            job.deliver_each(|_| Outcome::new(verdict, "", 250, "removed").without_report())
        });
        assert!(run.notes.is_empty(), "{:?}", run.notes);
        let status = if verdict == Verdict::Failed { "error2" } else { "ok3" };
        assert_eq!(run.report("ann").status, status);
    }
}
