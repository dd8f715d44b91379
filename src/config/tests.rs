use super::keywords::KEYWORDS;
use super::kinds::ValueInput;
use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A system with the users root (0), daemon (1) and mail (8). The scheduler runs as root or `mail`.
fn context(is_root: bool) -> ConfigContext {
    let id = |_, name: &str| match name {
        "root" => Ok(Some(0)),
        "daemon" => Ok(Some(1)),
        "mail" => Ok(Some(8)),
        "away" => Err(ErrorKind::TimedOut.into()),
        _ => Ok(None),
    };
    let own = if is_root { 0 } else { 8 };
    ConfigContext {
        zenv: Zenv::from_pairs([("LOGDIR", "/var/log/mail"), ("NUMBER", "42"), ("PORT", "1740")]),
        is_root,
        effective_user: own,
        effective_group: own,
        find_id: Arc::new(id),
    }
}

fn parse(text: impl AsRef<[u8]>) -> Result<LoadedConfig, Vec<Diagnostic>> {
    Config::parse(Path::new("cf"), text.as_ref(), &context(true))
}

fn config(text: impl AsRef<[u8]>) -> Config {
    let text = text.as_ref();
    let shown = String::from_utf8_lossy(text);
    parse(text).unwrap_or_else(|errors| panic!("{shown}\n{}", all(&errors))).config
}

fn all(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}

fn select(config: &Config, destination: &str) -> Rc<Clause> {
    let (channel, host) = destination.split_once('/').expect("a channel and a host");
    config.select(channel.as_bytes(), host.as_bytes()).expect(destination)
}

/// The diagnostics of a file, one a line.
fn verdict(text: impl AsRef<[u8]>, context: &ConfigContext) -> String {
    let (outcome, diagnostics) = match Config::parse(Path::new("cf"), text.as_ref(), context) {
        Ok(loaded) => ("ok\n", loaded.warnings),
        Err(errors) => ("refused\n", errors),
    };
    let first_lines = diagnostics.iter().map(|diagnostic| {
        let text = diagnostic.to_string();
        format!("{}\n", text.lines().next().unwrap_or_default())
    });
    std::iter::once(outcome.to_string()).chain(first_lines).collect()
}

fn check_verdict(text: impl AsRef<[u8]>, expected: Expect) {
    expected.assert_eq(&verdict(text, &context(true)));
}

/// The configuration used in the recording of clause selection.
const SELECTION: &str = r#"
PARAMauthfile = "/etc/zmailer/auth"
PARAMmailqsock = "TCP:17572"
*/*	interval=5s
	retries="10"
	maxring=7
	overfeed=2
	expiry=1h
	user=root
	group=daemon
c/a.test
	maxring=3
	command="vta -c c A"
c/a.test
	maxring=9
	command="vta -c c B"
c/b.test
c/*.b.test
c/e.test
	maxring=4
	command="vta -c c C"
*/*	maxring=11
	overfeed=6
*/odd.test	maxring=13
	expiry=2h
c/odd.test	overfeed=1
	command="vta -c c D"
c
	command="vta -c c E"
"#;

#[test]
fn queueonly_has_attempts_if_it_or_later_clause_names_times() {
    for (text, expected) in [
        ("*/*\tqueueonly command=x\n", false),
        ("*/*\tqueueonly interval=1h retries=24 command=x\n", true),
        ("*/*\tretries=24 queueonly command=x\n", true),
        ("*/*\tinterval=1h retries=24\nc/*\tqueueonly command=x\n", false),
        ("c/*\tqueueonly\n*/*\tinterval=1h command=x\n", true),
        ("c/*\tqueueonly interval=1h\nc/h\tqueueonly command=x\n", false),
        ("*/*\tinterval=1h retries=24 command=x\n", false),
    ] {
        let clause = config(text).select(b"c", b"h").expect("a clause matches");
        assert_eq!(clause.has_attempts, expected, "{text}");
    }
}

#[test]
fn clause_selection_matches_recording() {
    let config = config(SELECTION);
    // As in the original, except for odd.test: there `*/odd.test` never matches. Here it does, as
    // the manual page of the original promises (it has maxring 11 and expiry 1h).
    for (host, command, max_ring, overfeed, expiry_hours) in [
        ("a.test", "vta -c c A", 3, 2, 1),
        ("b.test", "vta -c c C", 4, 2, 1),
        ("x.b.test", "vta -c c C", 4, 2, 1),
        ("e.test", "vta -c c C", 4, 2, 1),
        ("odd.test", "vta -c c D", 13, 1, 2),
        ("zz.test", "vta -c c E", 11, 6, 1),
    ] {
        let clause = select(&config, &format!("c/{host}"));
        assert_eq!(clause.command.as_ref().map(AgentCommand::to_string).as_deref(), Some(command));
        assert_eq!(clause.max_ring, Some(max_ring), "{host}");
        assert_eq!(clause.overfeed, overfeed, "{host}");
        assert_eq!(clause.expiry, Some(Duration::from_secs(expiry_hours * 3_600)), "{host}");
        assert_eq!((clause.interval, clause.idle_max), (secs(5), secs(15)), "{host}");
        assert_eq!((clause.user, clause.group), (Some(0), Some(1)), "{host}");
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn effective_clause_is_named_after_clause_with_command() {
    let config = config(SELECTION);
    for (destination, channel, host, line) in [
        ("c/a.test", "c", "a.test", 11),
        ("c/b.test", "c", "b.test", 17),
        ("c/x.b.test", "c", "*.b.test", 18),
        ("c/e.test", "c", "e.test", 19),
        ("c/odd.test", "c", "odd.test", 26),
        ("c/zz.test", "c", "*", 28),
        // Without a command: the last one that is not `*/*`, or `*/*` itself.
        ("d/odd.test", "*", "odd.test", 24),
        ("d/x", "*", "*", 22),
    ] {
        let clause = select(&config, destination);
        let pattern = (clause.channel_pattern.as_str(), clause.host_pattern.as_str());
        assert_eq!(pattern, (channel, host), "{destination}");
        assert_eq!(clause.location.to_string(), format!("cf:{line}"), "{destination}");
        assert_eq!(clause.command.is_some(), channel == "c", "{destination}");
    }
}

#[test]
fn same_chain_selects_same_clause() {
    let config = config("*/*\tmaxring=1\n*/*.test\texpiry=1h\nc/*\tcommand=x\nd\n");
    let clause = |destination: &str| select(&config, destination);
    assert!(Rc::ptr_eq(&clause("c/a"), &clause("c/b")));
    assert!(Rc::ptr_eq(&clause("c/a.test"), &clause("c/b.test")));
    assert!(!Rc::ptr_eq(&clause("c/a"), &clause("c/a.test")));
    assert_ne!(clause("c/a").id, clause("c/a.test").id);
    // The empty clause at the end has no settings, so it makes no difference.
    assert!(Rc::ptr_eq(&clause("d/a"), &clause("e/a")));
    assert_eq!(clause("d/a").channel_pattern, "*");
}

#[test]
fn select_without_match_returns_none() {
    let config = config("c/a.test\tcommand=x\nd\n");
    assert!(config.select(b"c", b"b.test").is_none());
    assert!(config.select(b"\xff", b"").is_none());
    // A clause without settings still counts as a match.
    assert_eq!(select(&config, "d/x").channel_pattern, "d");
    assert_eq!(select(&config, "d/x").command, None);
}

#[test]
fn defaults_match_manual_page() {
    let clause = select(&config("*/*\tbychannel\n"), "c/h");
    expect![[r#"
        Clause {
            id: ClauseId(
                0,
            ),
            channel_pattern: "*",
            host_pattern: "*",
            location: SourceLocation {
                file: "cf",
                line: 1,
            },
            combined_lines: [
                1,
            ],
            interval: 60s,
            idle_max: 180s,
            expiry: Some(
                259200s,
            ),
            expiry2: None,
            retries: [
                1,
                1,
                2,
                3,
                5,
                8,
                13,
                21,
                34,
            ],
            skew: 5,
            max_agents: None,
            max_channel: None,
            max_ring: None,
            max_thread: 1,
            overfeed: 150,
            age_order: false,
            queue_only: false,
            has_attempts: false,
            wakeup_restart_only: false,
            command: None,
            user: Some(
                0,
            ),
            group: Some(
                1,
            ),
            nice: None,
            report_times: [],
            delivery_form: None,
            expiry_form: None,
            agent_timeout: 3600s,
            recipient_limit: 20000,
            extra_recipient_limit: 1000,
            refill_limit: 100,
            refill_delay: 5s,
            agent_life: None,
            agent_jobs: None,
            idle_ping: None,
            packet: 0,
            flow: Flow {
                initial: None,
                positive: None,
                negative: None,
                failed_cohorts: 0,
                debug: false,
                rate: None,
                delay: None,
                key: None,
            },
            job_order: Turns,
            priority_step: 60s,
            slot_cost: 0,
            slot_discount: 50,
            slot_loan: 3,
            minimum_slots: 3,
            mail_priority: Level(
                5,
            ),
            lines: {
                "bychannel": 1,
            },
        }
    "#]]
    .assert_debug_eq(&*clause);
}

#[test]
fn defaults_follow_other_values() {
    let config = config(
        "*/*\tmaxta=50 interval=10s\nb\tinterval=1m maxring=0 command=x\n\
         c\tidlemax=5s maxchannel=3 interval=1h command=x\n",
    );
    let (b, c) = (select(&config, "b/h"), select(&config, "c/h"));
    assert_eq!((b.idle_max, b.max_agents), (secs(180), Some(50)));
    assert_eq!((b.max_channel, b.max_ring), (Some(50), None));
    assert_eq!((c.idle_max, c.max_channel, c.max_ring), (secs(5), Some(3), Some(50)));
}

#[test]
fn odd_values_are_interpreted() {
    let config = config(
        "*/*\tMAXTA=-3 maxthr=0 overfeed=-1 expiry=0 expiry2=1d retries=0 idlemax=0 USER=123\n\
         \tqueueonly=no wakeuprestartonly nice=3 priority=-5 deliveryform=\"\" syspriority=3\n\
         \tsysnice=-40 ageorder=\n",
    );
    let clause = select(&config, "c/h");
    assert_eq!((clause.max_agents, clause.max_thread, clause.overfeed), (None, 1, 0));
    assert_eq!((clause.expiry, clause.expiry2), (None, Some(secs(86_400))));
    assert_eq!((&clause.retries[..], clause.idle_max), (&[0][..], secs(0)));
    assert_eq!((clause.queue_only, clause.age_order), (true, true));
    assert!(clause.wakeup_restart_only);
    assert_eq!(clause.user, Some(123));
    assert_eq!(clause.nice, Some(Niceness::Absolute(-5)));
    assert_eq!(clause.delivery_form.as_deref(), Some(""));
    assert_eq!(config.scheduler_niceness, Some(Niceness::Relative(-40)));
}

#[test]
fn values_expand_variables() {
    let config = config(
        "PARAMauthfile=\"${LOGDIR}/auth\"\nPARAMmailqsock=TCP:${PORT}@any\n\
         c\tmaxring=${NUMBER} expiry=${NUMBER}m command=\"x -l ${LOGDIR}/x\"\n",
    );
    assert_eq!(config.parameters.auth_file.as_deref(), Some(Path::new("/var/log/mail/auth")));
    let clause = select(&config, "c/h");
    assert_eq!((clause.max_ring, clause.expiry), (Some(42), Some(secs(42 * 60))));
    assert_eq!(
        clause.command.as_ref().map(AgentCommand::to_string).as_deref(),
        Some("x -l ${LOGDIR}/x")
    );
}

#[test]
fn parameters_are_parsed() {
    let config = config(
        "PARAMauthfile = \"/a\"\nPARAMAUTHFILE = \"/b\"\nPARAMnotifysock=UNIX:/n\n\
         parammsgwriteasync=7\nPARAMglobal-report-interval = 15m\nPARAMstore-error-on-error=0\n\
         PARAMmailqpath=\"TCP:mailq\"\nPARAMmailqsock=/m\nPARAMmailq-trust-network=1\n\
         PARAMmessage-active-limit=5\nc\n",
    );
    assert_eq!(
        config.parameters,
        Parameters {
            auth_file: Some("/b".into()),
            mailq_socket: Some(MailqSocket::Unix("/m".into())),
            mailq_trust_network: true,
            notify_socket: Some("/n".into()),
            write_async: true,
            global_report_interval: secs(900),
            obey_obsoletes: false,
            store_error_on_error: false,
            message_active_limit: Some(5),
            message_recipient_limit: None,
            message_recipient_minimum: None,
        }
    );
}

#[test]
fn mailq_socket_forms_are_parsed() {
    let tcp = |port, address| Ok(MailqSocket::Tcp { port, address });
    let number = TcpPort::Number;
    let service = |name: &str| TcpPort::Service(name.to_string());
    let address = |text: &str| BindAddress::Address(text.parse().expect("an address"));
    for (text, expected) in [
        ("UNIX:/p", Ok(MailqSocket::Unix("/p".into()))),
        ("unix:/p q", Ok(MailqSocket::Unix("/p q".into()))),
        ("/p", Ok(MailqSocket::Unix("/p".into()))),
        ("TCP:174", tcp(number(174), BindAddress::Loopback)),
        ("tcp:mailq", tcp(service("mailq"), BindAddress::Loopback)),
        ("174", tcp(number(174), BindAddress::Loopback)),
        ("mailq", tcp(service("mailq"), BindAddress::Loopback)),
        ("174@any", tcp(number(174), BindAddress::Any)),
        ("TCP:174@ANY", tcp(number(174), BindAddress::Any)),
        ("TCP:mailq@192.0.2.1", tcp(service("mailq"), address("192.0.2.1"))),
        ("TCP:0@::1", tcp(number(0), address("::1"))),
        ("TCP:174@[2001:db8::1]", tcp(number(174), address("2001:db8::1"))),
        ("", Err(0)),
        ("UNIX:p", Err(5)),
        ("TCP:", Err(4)),
        ("TCP:65536", Err(4)),
        ("TCP:-1", Err(4)),
        ("TCP:a b", Err(4)),
        ("TCP:174@", Err(8)),
        ("TCP:174@host", Err(8)),
        ("é", Err(0)),
    ] {
        let socket = MailqSocket::parse(text);
        if let Ok(socket) = &socket {
            assert_eq!(MailqSocket::parse(&socket.to_string()).as_ref(), Ok(socket), "{text}");
        }
        assert_eq!(socket.map_err(|error| error.at), expected, "{text}");
    }
}

/// Every recorded case of the original, and our result.
///
/// An exit status of 1 is a refusal.
#[test]
fn recorded_errors_of_original_are_reported() {
    let recorded = [
        // Names of parameters.
        (1, "PARAMfrob=1\nc\n"),
        // The name of the manual page, which the original refuses.
        (1, "PARAMmailqpath=\"TCP:174\"\nc/*\tcommand=x\n"),
        (0, "PARAMauthfile=/a\nPARAMauthfile=/b\nc/*\tcommand=x\n"),
        (1, "PARAM authfile=/a\nc/*\tcommand=x\n"),
        (0, "paramauthfile=/a\nc/*\tcommand=x\n"),
        (1, "PARAMauthfile\nc/*\tcommand=x\n"),
        // The manual page has retries=0, the original refuses it.
        (1, "c/*\tretries=0 command=x\n"),
        (1, "c/*\tretries=\"1 0 2\" command=x\n"),
        (1, "c/*\tretries=\"\" command=x\n"),
        (1, "c/*\n\tfrob=1 command=x\n"),
        (1, "c/*\n\tmaxhost=1 command=x\n"),
        (1, "c/*\n\tbyhost command=x\n"),
        (0, "c/*\tbychannel command=x\n"),
        (0, "c/*\toverfeed=-1 command=x\n"),
        (1, "c/*\tskew=0 command=x\n"),
        (1, "c/*\tnice=50 command=x\n"),
        (1, "c/*\tuser=nosuchuser command=x\n"),
        (0, "c/*\tuser=123 command=x\n"),
        // The original divides by this value at the first deferral.
        (0, "c/*\tinterval=0 command=x\n"),
        // The original reads text as 0.
        (0, "c/*\tmaxring=abc command=x\n"),
        (0, "c/*\tmaxring=-3 command=x\n"),
        (0, "c/*\tmaxthr=0 command=x\n"),
        (0, "c/*\treporttimes=\"1h 2h 3h 4h 5h\" command=x\n"),
        (0, "c/*\treporttimes=\"1h 2h\" command=x\n"),
        (0, "c/*\tINTERVAL=5s CoMmAnD=x\n"),
        (1, ""),
        (1, "# nothing\n\n   # to see\n"),
        (0, "c/*\tmaxring = 3 command = x\n"),
        (0, "c/*\tqueueonly=yes command=x\n"),
        (1, "# a keyword first\n\tinterval=5s\nc/*\tcommand=x\n"),
        (0, "c/*\tmaxring=3 # three\n\t# a comment\n\tcommand=x\n"),
        (0, "c/*\tcommand=\"x \\\n\t-y\"\n"),
        (1, "c/*\tcommand=\"x y\n\n"),
        // Input that crashes the original.
        (139, "c/*\tinterval\n\texpiry command\n"),
    ];
    let shown = recorded
        .map(|(status, text)| format!("{text:?} [{status}] {}", verdict(text, &context(true))));
    expect![[r##"
        "PARAMfrob=1\nc\n" [1] refused
        cf:1:1: error: unknown parameter `PARAMfrob`
        "PARAMmailqpath=\"TCP:174\"\nc/*\tcommand=x\n" [1] ok
        "PARAMauthfile=/a\nPARAMauthfile=/b\nc/*\tcommand=x\n" [0] ok
        "PARAM authfile=/a\nc/*\tcommand=x\n" [1] refused
        cf:1:1: error: a parameter's name follows PARAM directly, without a blank
        "paramauthfile=/a\nc/*\tcommand=x\n" [0] ok
        "PARAMauthfile\nc/*\tcommand=x\n" [1] refused
        cf:1:1: error: `PARAMauthfile` needs a value: a path
        "c/*\tretries=0 command=x\n" [1] ok
        "c/*\tretries=\"1 0 2\" command=x\n" [1] ok
        "c/*\tretries=\"\" command=x\n" [1] refused
        cf:1:13: error: the list of retry factors is empty
        "c/*\n\tfrob=1 command=x\n" [1] refused
        cf:2:2: error: unknown keyword `frob`
        "c/*\n\tmaxhost=1 command=x\n" [1] refused
        cf:2:2: error: `maxhost` is no longer supported: use `maxthr`
        "c/*\n\tbyhost command=x\n" [1] refused
        cf:2:2: error: `byhost` is no longer supported: destinations always have one host
        "c/*\tbychannel command=x\n" [0] ok
        "c/*\toverfeed=-1 command=x\n" [0] ok
        "c/*\tskew=0 command=x\n" [1] refused
        cf:1:10: error: 0 is too small: at least 1
        "c/*\tnice=50 command=x\n" [1] refused
        cf:1:10: error: 50 is not in the range from -40 to 39
        "c/*\tuser=nosuchuser command=x\n" [1] refused
        cf:1:10: error: there is no user `nosuchuser` on this system
        "c/*\tuser=123 command=x\n" [0] ok
        "c/*\tinterval=0 command=x\n" [0] refused
        cf:1:14: error: an interval of 0 is not possible here
        "c/*\tmaxring=abc command=x\n" [0] refused
        cf:1:13: error: `abc` is not a whole number
        "c/*\tmaxring=-3 command=x\n" [0] ok
        "c/*\tmaxthr=0 command=x\n" [0] ok
        "c/*\treporttimes=\"1h 2h 3h 4h 5h\" command=x\n" [0] ok
        cf:1:30: warning: ignored from here on: at most four are used
        "c/*\treporttimes=\"1h 2h\" command=x\n" [0] ok
        "c/*\tINTERVAL=5s CoMmAnD=x\n" [0] ok
        "" [1] refused
        cf: error: there is no clause in this file
        "# nothing\n\n   # to see\n" [1] refused
        cf: error: there is no clause in this file
        "c/*\tmaxring = 3 command = x\n" [0] ok
        "c/*\tqueueonly=yes command=x\n" [0] ok
        "# a keyword first\n\tinterval=5s\nc/*\tcommand=x\n" [1] refused
        cf:2:2: error: the keyword `interval` comes before any clause
        "c/*\tmaxring=3 # three\n\t# a comment\n\tcommand=x\n" [0] ok
        "c/*\tcommand=\"x \\\n\t-y\"\n" [0] ok
        "c/*\tcommand=\"x y\n\n" [1] refused
        cf:1:13: error: this quote is not closed on its line
        "c/*\tinterval\n\texpiry command\n" [139] refused
        cf:1:5: error: `interval` needs a value: an interval
        cf:2:2: error: `expiry` needs a value: an interval
        cf:2:9: error: `command` needs a value: a command line
    "##]]
    .assert_eq(&shown.concat());
}

#[test]
fn other_mistakes_are_reported() {
    check_verdict(
        "*/*\tmaxrng=5 intervall=2w\ninterval=5s\nc/A.test\tinterval=1.5h expiry=-5 =3 packet=5\n\
         \tpriority=z priority=20 agent-timeout=0 overfeed=10001 skew=x user=-1 group=nosuch\n\
         \tgangschedule command=\"\" reporttimes=\"1h 5x\" retries=\"1 b\"\n\
         PARAMmailqsock=TCP:\nPARAMnotifysock=TCP:5\nPARAMglobal-report-interval=0\n\
         PARAMmessage-active-limit=0\nPARAMauthfil=/a\nPARAMmsgwriteasync=yes\n/x\n[a\n",
        expect![[r#"
            refused
            cf:1:5: error: unknown keyword `maxrng`; did you mean `maxring`?
            cf:1:14: error: unknown keyword `intervall`; did you mean `interval`?
            cf:2:1: error: only a pattern may begin in the first column, not `interval`
            cf:3:3: warning: names are compared in lower case, so a capital `A` never matches
            cf:3:20: error: `.5h` does not belong to an interval such as 1d2h3m4s
            cf:3:31: error: `-5` does not belong to an interval such as 1d2h3m4s
            cf:3:34: error: a keyword is missing before this
            cf:4:11: error: priority `z` is known, but not supported yet
            cf:4:22: error: 20 is not in the range from -20 to 19
            cf:4:39: error: an interval of 0 is not possible here
            cf:4:50: error: 10001 is too large: at most 10000
            cf:4:61: error: `x` is not a whole number
            cf:4:68: error: there is no user `-1` on this system
            cf:4:77: error: there is no group `nosuch` on this system
            cf:5:2: error: `gangschedule` is no longer supported: destinations of one ring share its agents
            cf:5:23: error: this command has no program
            cf:5:43: error: `x` is not a unit of time (s, m, h, d or w)
            cf:5:57: error: `b` is not a retry factor (a whole number)
            cf:6:20: error: a port or the name of a service is missing here
            cf:7:17: error: `TCP:5` is not the path of a socket, such as UNIX:/path
            cf:8:29: error: an interval of 0 is not possible here
            cf:9:27: error: a number above 0 is needed here
            cf:10:1: error: unknown parameter `PARAMauthfil`; did you mean `PARAMauthfile`?
            cf:11:20: error: `yes` is not a whole number
            cf:12:1: error: no channel before the slash; * stands for any
            cf:13:1: error: this `[` has no `]`; a plain one is written `\[`
        "#]],
    );
}

#[test]
fn diagnostic_shows_position() {
    let text = "*/*\n\tinterval=1h2y\nc/*\n\tretries=\"1 2 \\\n\t\t3 x\"\n\tcommand=\"a ${NO}\"\n";
    let errors = parse(text).expect_err("mistakes");
    expect![[r#"
        cf:2:14: error: `y` is not a unit of time (s, m, h, d or w)
        	interval=1h2y
        	            ^
        cf:5:5: error: `x` is not a retry factor (a whole number)
        		3 x"
        		  ^
        cf:6:13: warning: the ZENV file has no `${NO}`; it expands to nothing
        	command="a ${NO}"
        	           ^
    "#]]
    .assert_eq(&all(&errors));
}

#[test]
fn suspicious_settings_produce_warnings() {
    check_verdict(
        "c/[127.0.0.1]\tcommand=\"x $LOGDIR ${NO}\"\nc/*.Test\nc/{a,b}c\tcommand=x deliveryform=${NO}\n\
         c\tcommand=x\nc/a.test\tmaxring=3\nqueueonly\n*\n",
        expect![[r#"
            ok
            cf:1:3: warning: this is any one of these characters; an address is written `\[127.0.0.1\]`
            cf:1:34: warning: the ZENV file has no `${NO}`; it expands to nothing
            cf:2:5: warning: names are compared in lower case, so a capital `T` never matches
            cf:3:8: warning: `c` after the braces is ignored
            cf:3:33: warning: the ZENV file has no `${NO}`; it expands to nothing
            cf:5:1: warning: this is never reached: the clause of line 4 matches all of it, and has a command
            cf:6:1: warning: in the first column `queueonly` is the pattern of a channel; the keyword needs a blank before it
            cf:6:1: warning: this clause is empty, and so is all that follows it
            cf:7:1: warning: this clause is empty, and so is all that follows it
        "#]],
    );
}

#[test]
fn contradicting_settings_produce_warnings() {
    check_verdict(
        "*/*\tmaxta=50 interval=1h expiry=3d\nc/a\tmaxthr=9 maxring=5\n\tmaxthr=7\n\tcommand=x\n\
         c/b\nc/c\n\tmaxring=60 command=x\nc/d\texpiry=5m command=x\nc/*\tcommand=x\n",
        expect![[r#"
            ok
            cf:2:1: warning: maxthr=7 is more than maxring=5 permits
            cf:3:2: warning: `maxthr` replaces that of line 2
            cf:6:1: warning: maxring=60 is more than maxta=50 permits
            cf:8:1: warning: mail expires after 5m (expiry) and so is not tried a second time, after 1h (interval, retries)
        "#]],
    );
}

#[test]
fn clause_of_channel_without_command_produces_warning() {
    check_verdict(
        "*/*\tinterval=1h\nsmtp/*\tmaxthr=9\nsmtp/*.fi\tcommand=x\nsmtp*/*.fi\tmaxthr=3\n\
         hold/a\nhold/*\tmaxring=2\nwait/*\tqueueonly\nlocal/*\tmaxring=2\nlocal/?\tmaxthr=2\n\
         {local,usenet}\tcommand=x\nuucp/[ab]\tmaxthr=1\n",
        expect![[r#"
            ok
            cf:2:1: warning: no clause has a command for this mail, which stays queued; `queueonly` says that this is meant
            cf:6:1: warning: no clause has a command for this mail, which stays queued; `queueonly` says that this is meant
        "#]],
    );
}

#[test]
fn byte_order_mark_is_skipped() {
    let config = config("\u{feff}c/h\tcommand=x\n");
    assert!(config.select(b"c", b"h").is_some());
}

#[test]
fn user_of_clause_requires_root() {
    let text =
        "*/*\tuser=root group=daemon\nc\tuser=mail group=8 command=x\nd\tuser=9 group=mail\n";
    expect![[r#"
        refused
        cf:1:10: error: only root can run agents as user 0; this is user 8
        cf:1:21: error: only root can run agents as group 1; this is group 8
        cf:3:8: error: only root can run agents as user 9; this is user 8
    "#]]
    .assert_eq(&verdict(text, &context(false)));
    let own = Config::parse(Path::new("cf"), b"c\tuser=mail command=x\n", &context(false));
    let clause = select(&own.expect("our own user").config, "c/h");
    assert_eq!((clause.user, clause.group), (Some(8), None));
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    check_verdict(
        b"# \xe4\nc/\xe4\tcommand=\"x\0\"\nPARAM\xff=\xfe\n",
        expect![[r#"
            refused
            cf:2:3: error: this is not UTF-8
            cf:2:15: error: the control character `^@` here
            cf:3:1: error: unknown parameter `PARAM�`
            cf:3:6: error: this is not UTF-8
            cf:3:8: error: this is not UTF-8
        "#]],
    );
}

#[test]
fn unreadable_file_is_named_in_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scheduler.cf");
    let load = |path: &Path| Config::load(path, &context(true));
    let message = |path: &Path| {
        let errors = load(path).expect_err("no usable file");
        all(&errors).replace(&folder.path().display().to_string(), "")
    };
    assert_eq!(
        message(&path),
        "/scheduler.cf: error: the file cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(
        message(folder.path()),
        ": error: the file cannot be read: it is not a regular file\n"
    );
    std::fs::write(&path, "c\tcommand=x\n").expect("a file");
    assert_eq!(select(&load(&path).expect("a good file").config, "c/h").location.file, path.into());
}

#[test]
fn too_large_file_is_refused() {
    let text = "#".repeat(MAX_FILE_SIZE as usize + 1);
    check_verdict(
        text,
        expect![[r#"
            refused
            cf: error: the file is larger than 1 MiB
        "#]],
    );
}

#[test]
fn hostile_files_are_parsed_quickly() {
    let started = Instant::now();
    // An eighth of the limit, because tests are not optimised.
    let size = MAX_FILE_SIZE as usize / 8;
    let units = [
        "x\n",
        "c/*a*b\n",
        "\tx",
        "\"",
        "=",
        "\tx=\"\\\n",
        "a{",
        "${",
        "${a}",
        "\n",
        "\\\n",
        "\\",
        "1",
        "x ",
        "c\tcommand=${a} ",
    ];
    for unit in units {
        let text = unit.repeat(size / unit.len());
        for start in ["", "c\tmaxring=\"", "c\tcommand=\"x ", "PARAMmailqsock=\""] {
            // The result is short in any case.
            assert!(verdict(format!("{start}{text}"), &context(true)).len() < 50_000, "{unit:?}");
        }
    }
    assert!(started.elapsed() < secs(60), "{:?}", started.elapsed());
}

/// The effective clauses of some destinations, without positions.
fn meaning(config: &Config, destinations: &[&str]) -> String {
    let mut out = format!("{:?} {:?}\n", config.parameters, config.scheduler_niceness);
    for destination in destinations {
        let clause = select(config, destination);
        let location = SourceLocation { file: Path::new("").into(), line: 0 };
        let (lines, combined_lines) = (BTreeMap::new(), Vec::new());
        let clause = Clause { location, lines, combined_lines, ..(*clause).clone() };
        out += &format!("{destination} {clause:?}\n");
    }
    out
}

fn check_shown(text: &str, destinations: &[&str]) {
    let before = config(text);
    let shown = before.show();
    let after = config(&shown);
    assert_eq!(meaning(&before, destinations), meaning(&after, destinations), "{shown}");
    assert_eq!(without_sources(&shown), without_sources(&after.show()));
}

fn without_sources(shown: &str) -> Vec<&str> {
    shown.lines().map(|line| line.split(" # ").next().unwrap_or_default()).collect()
}

#[test]
fn shown_configuration_read_again_is_unchanged() {
    check_shown(
        SELECTION,
        &["c/a.test", "c/b.test", "c/x.b.test", "c/odd.test", "c/zz.test", "d/x", "d/odd.test"],
    );
    check_shown(
        "PARAMmailqsock=\"TCP:${PORT}@any\"\nPARAMauthfile=\"/a b\"\nPARAMmsgwriteasync=1\n\
         PARAMnotifysock=/n\nPARAMglobal-report-interval=1h30\nPARAMstore-error-on-error=1\n\
         */*\tsysnice=3 syspriority=4 nice=1 deliveryform=\"\" expiryform=\"#x\" reporttimes=\"1h 90\"\n\
         \tmaxring=-3 overfeed=-1 expiry=0 retries=0 maxring=5 ageorder queueonly=x bychannel\n\
         c/\\[127.0.0.1\\]\tpriority=1 nice=2 command=a\"b\n\
         c/{a,b}\nc/[^a]\tnice=2 priority=1 command=\"A=1 x  -l ${LOGDIR}/x $host\" user=5\n\
         d\n",
        &["c/[127.0.0.1]", "c/a", "c/b", "c/c", "c/x", "d/d", "e/e"],
    );
}

#[test]
fn shown_configuration_names_sources() {
    let config = config("*/*\tinterval=5s\nsmtp/*.test\n\tmaxring=3 queueonly command=\"a b\"\n");
    expect![[r##"
        # The effective configuration                   # cf
        # Settings that are commented out are inherited or defaults.

        #PARAMauthfile                                  # default: none
        #PARAMglobal-report-interval=5m                 # default
        #PARAMmailq-trust-network=0                     # default
        #PARAMmailqsock                                 # default: TCP:mailq, which is port 174
        #PARAMmessage-active-limit                      # default: none; 20000 where another limit on memory is set
        #PARAMmessage-recipient-limit                   # default: none; 20000 where another limit on memory is set
        #PARAMmessage-recipient-minimum                 # default: none; 10 where another limit on memory is set
        #PARAMmsgwriteasync=0                           # default
        #PARAMnotifysock                                # default: SCHEDULERNOTIFY of the ZENV file, else .scheduler.notify in POSTOFFICE
        #PARAMobey-obsoletes=0                          # default
        #PARAMstore-error-on-error=0                    # default

        */*                                             # cf:1
        	interval=5s                             # cf:1
        	#agent-jobs=0                           # default
        	#agent-life                             # default: none
        	#agent-timeout=1h                       # default
        	#ageorder                               # default: off
        	#command                                # default: none
        	#delivery-delay                         # default: none
        	#expiry=3d                              # default
        	#expiry2                                # default: none
        	#extra-recipient-limit=1000             # default
        	#failed-cohort-limit=0                  # default
        	#feedback-debug                         # default: off
        	#group=1                                # default
        	#idle-ping                              # default: none
        	#idlemax=15s                            # default
        	#initial-concurrency                    # default: that of maxthr
        	#job-order                              # default: message if slot-cost is not 0
        	#mail-priority=5                        # default
        	#maxchannel=0                           # default
        	#maxring=0                              # default
        	#maxta=0                                # default
        	#maxthr=1                               # default
        	#minimum-slots=3                        # default
        	#negative-feedback                      # default: none
        	#nice                                   # default: none
        	#overfeed=150                           # default
        	#packet=0                               # default
        	#positive-feedback                      # default: none
        	#priority                               # default: none
        	#priority-step=1m                       # default
        	#queueonly                              # default: off
        	#rate                                   # default: none
        	#recipient-limit=20000                  # default
        	#refill-delay=5s                        # default
        	#refill-limit=100                       # default
        	#reporttimes                            # default: none
        	#retries="1 1 2 3 5 8 13 21 34"         # default
        	#skew=5                                 # default
        	#slot-cost=0                            # default
        	#slot-discount=50                       # default
        	#slot-loan=3                            # default
        	#user=0                                 # default
        	#wakeuprestartonly                      # default: off
        	#window-key                             # default: none

        smtp/*.test                                     # cf:2
        	maxring=3                               # cf:3
        	queueonly                               # cf:3
        	command="a b"                           # cf:3
        	#agent-jobs=0                           # default
        	#agent-life                             # default: none
        	#agent-timeout=1h                       # default
        	#ageorder                               # default: off
        	#delivery-delay                         # default: none
        	#expiry=3d                              # default
        	#expiry2                                # default: none
        	#extra-recipient-limit=1000             # default
        	#failed-cohort-limit=0                  # default
        	#feedback-debug                         # default: off
        	#group=1                                # default
        	#idle-ping                              # default: none
        	#idlemax=15s                            # default
        	#initial-concurrency                    # default: that of maxthr
        	#interval=5s                            # cf:1
        	#job-order                              # default: message if slot-cost is not 0
        	#mail-priority=5                        # default
        	#maxchannel=0                           # default
        	#maxta=0                                # default
        	#maxthr=1                               # default
        	#minimum-slots=3                        # default
        	#negative-feedback                      # default: none
        	#nice                                   # default: none
        	#overfeed=150                           # default
        	#packet=0                               # default
        	#positive-feedback                      # default: none
        	#priority                               # default: none
        	#priority-step=1m                       # default
        	#rate                                   # default: none
        	#recipient-limit=20000                  # default
        	#refill-delay=5s                        # default
        	#refill-limit=100                       # default
        	#reporttimes                            # default: none
        	#retries="1 1 2 3 5 8 13 21 34"         # default
        	#skew=5                                 # default
        	#slot-cost=0                            # default
        	#slot-discount=50                       # default
        	#slot-loan=3                            # default
        	#user=0                                 # default
        	#wakeuprestartonly                      # default: off
        	#window-key                             # default: none
    "##]].assert_eq(&config.show());
    let clause = config.select(b"smtp", b"a.test").expect("a clause");
    let lines = clause.lines.iter().map(|(keyword, line)| format!("{keyword} in line {line}"));
    let expected = ["command in line 3", "interval in line 1", "maxring in line 3"];
    assert_eq!(lines.collect::<Vec<_>>(), [&expected[..], &["queueonly in line 3"]].concat());
    assert_eq!((clause.channel_pattern.as_str(), clause.host_pattern.as_str()), ("smtp", "*.test"));
    assert_eq!((clause.interval.as_secs(), clause.idle_max.as_secs()), (5, 15));
    assert_eq!((clause.max_ring, clause.max_channel, clause.group), (Some(3), None, Some(1)));
    assert_eq!(clause.location.to_string(), "cf:2");
}

#[test]
fn keyword_get_returns_value_set() {
    for keyword in KEYWORDS {
        let Some(get) = keyword.get else { continue };
        let samples = [
            "17",
            "-3",
            "7",
            "7s",
            "7s 9s",
            "1 7",
            "name",
            "random",
            "program -x",
            "0.5/concurrency",
            "17/7s",
            "a=b",
        ];
        let value = samples.into_iter().find_map(|text| {
            let context = context(true);
            let input = ValueInput { text, context: &context, warnings: &mut Vec::new() };
            let value = (keyword.read)(input).ok()?.text;
            let config = config(format!("c\t{}=\"{text}\"\n", keyword.name));
            let draft = config.resolve(&config.chain(b"c", b"h")?);
            (get(&draft).as_ref() == Some(&value)).then_some(value)
        });
        assert!(value.is_some(), "{}", keyword.name);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(text: Vec<u8>, names: (Vec<u8>, Vec<u8>)) {
        if let Ok(loaded) = parse(&text) {
            loaded.config.select(&names.0, &names.1);
            loaded.config.show();
        }
    }

    #[test]
    fn arbitrary_configuration_does_not_panic(
        text in "(\\*/\\*|c|/|\\[|\\{|\\}|\\]|,|\\^|\\\\|\n|\t| |=|\"|#|\\$\\{LOGDIR\\}|\\$host|[0-9]|m|é|\
                 PARAM|mailqsock|maxring|interval|expiry|retries|command|user|nice|queueonly|packet|\
                 rate|window-key|positive-feedback|concurrency|sqrt){0,60}",
    ) {
        if let Ok(loaded) = parse(&text) {
            if let Some(clause) = loaded.config.select(b"c", b"h") {
                let zenv = context(true).zenv;
                clause.command.as_ref().map(|command| command.expand(b"c", b"h", &zenv));
            }
            // The shown configuration is always valid, and has the same effect.
            let shown = loaded.config.show();
            let again = parse(&shown).map_err(|errors| TestCaseError::fail(all(&errors)))?;
            let shown_again = again.config.show();
            prop_assert_eq!(without_sources(&shown_again), without_sources(&shown));
        }
    }
}

#[test]
fn failed_account_lookup_is_reported() {
    let text = "c/*\n\tuser=away\n\tcommand=x\n";
    let read = |context: &ConfigContext| {
        let errors = Config::parse(Path::new("cf"), text.as_bytes(), context).expect_err("refused");
        errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(read(&context(true)), ["user `away` cannot be looked up: timed out"]);
    let find_id = Arc::new(|_, _: &str| Err(ErrorKind::TimedOut.into()));
    let away = ConfigContext { find_id, ..context(true) };
    let text = "c/*\n\tcommand=x\n";
    let errors = Config::parse(Path::new("cf"), text.as_bytes(), &away).expect_err("refused");
    assert_eq!(errors[0].message, "group daemon cannot be looked up: timed out");
}
