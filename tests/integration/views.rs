//! Views in JSON, events and logins by SCRAM, with the real scheduler and agents at work.

use crate::support::{Client, Site, allow, hold_for, until};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};
use zsched_mailq_protocol::schema::{
    AgeStatus, AgentStatus, OverrideStatus, QueuedMessage, RingStatus, Summary, ThreadStatus, Wait,
};
use zsched_mailq_protocol::scram::{self, StoredPassword};

const CLAUSES: &str = "*/*\n\tinterval=1h retries=1 expiry=3d\n\
     c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c\"\n\
     fast/*\n\tidlemax=1h command=\"discard -c fast\"\n\
     q/*\n\tqueueonly maxring=7 command=\"discard -c q\"\n";

fn control(site: &Site) -> Client<UnixStream> {
    Client::local(site, "postoffice/.scheduler.control")
}

const PROTOCOL: &str = include_str!("../../docs/mailq-protocol.md");

/// Fails unless the document of the protocol names all fields.
#[track_caller]
fn expect_documented(value: &Value) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let is_there = [format!("`{name}`"), format!("\"{name}\"")];
            assert!(is_there.iter().any(|name| PROTOCOL.contains(name)), "{name}");
            // Request counters (the object "mailq") are not documented one by one.
            if name != "mailq" {
                expect_documented(value);
            }
        }),
        Value::Array(values) => values.iter().for_each(expect_documented),
        _ => {}
    }
}

/// Returns all names of fields in an object and its parts.
fn names(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| [names(value), [name.clone()].into()])
            .flatten()
            .collect(),
        Value::Array(values) => values.iter().flat_map(names).collect(),
        _ => BTreeSet::new(),
    }
}

/// Fails unless the object has all names in the document's paragraph that begins with `beginning`.
#[track_caller]
fn expect_all_of(value: &Value, beginning: &str) {
    let (_, paragraph) = PROTOCOL.split_once(&format!("\n\n{beginning}")).expect(beginning);
    let (mut paragraph, _) = paragraph.split_once("\n\n").expect("an end");
    // Text in parentheses explains the names before it.
    let mut text = String::new();
    while let Some((before, rest)) = paragraph.split_once('(') {
        text += before;
        paragraph = rest.split_once(')').expect("another parenthesis").1;
    }
    text += paragraph;
    let found = names(value);
    for name in text.split('`').skip(1).step_by(2) {
        assert!(found.contains(name), "{beginning} there is no {name} in {value}");
    }
}

/// Fails unless the object has exactly the fields of the document's example behind `beginning`.
#[track_caller]
fn expect_like_example(value: &Value, beginning: &str) {
    let (_, rest) = PROTOCOL.split_once(&format!("\n\n{beginning}\n\n```json\n")).expect(beginning);
    let (example, _) = rest.split_once("```").expect("an end");
    let example: Value = serde_json::from_str(example).expect("JSON");
    assert_eq!(names(value), names(&example), "{beginning}");
}

/// Fails unless the types of the schema read and write an object without a difference.
#[track_caller]
fn expect_schema(request: &str, line: &str) {
    fn again<T: Serialize + DeserializeOwned>(line: &str) -> String {
        let object: T = serde_json::from_str(line).expect("an object of the schema");
        serde_json::to_string(&object).expect("JSON")
    }
    let again = match request.split(' ').nth(2) {
        Some("SUMMARY") => again::<Summary>(line),
        Some("THREADS") => again::<ThreadStatus>(line),
        Some("AGES") => again::<AgeStatus>(line),
        Some("RINGS") => again::<RingStatus>(line),
        Some("AGENTS") => again::<AgentStatus>(line),
        Some("MESSAGES") => again::<QueuedMessage>(line),
        Some("ORDERS") => again::<OverrideStatus>(line),
        Some("WHY") if !line.contains("\"on-disk\"") => {
            // The channel, the host and two numbers come first.
            let wait = again::<Wait>(line);
            assert!(line.ends_with(&wait[1..]), "{request}: {line} is sent, {wait} is written");
            return;
        }
        _ => return,
    };
    assert_eq!(again, line, "{request}");
}

/// Returns the objects of an answer.
#[track_caller]
fn objects<S: Read + Write>(client: &mut Client<S>, request: &str) -> Vec<Value> {
    let answer = client.ask(request);
    answer.lines().for_each(|line| expect_schema(request, line));
    let object =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{request}: {line}"));
    let objects: Vec<Value> = answer.lines().map(object).collect();
    objects.iter().take(100).for_each(expect_documented);
    objects
}

/// Returns the only object of an answer.
#[track_caller]
fn object<S: Read + Write>(client: &mut Client<S>, request: &str) -> Value {
    let objects = objects(client, request);
    let [object] = &objects[..] else { panic!("{request}: {objects:?}") };
    object.clone()
}

/// Returns the text of a field of each object.
fn words<'o>(objects: &'o [Value], field: &str) -> Vec<&'o str> {
    objects.iter().filter_map(|object| object[field].as_str()).collect()
}

/// Waits until this number of recipients is loaded.
fn until_known(client: &mut Client<UnixStream>, recipients: u64) {
    until("all is loaded", || object(client, "SHOW JSON SUMMARY")["recipients"] == recipients);
}

#[test]
fn queue_is_shown_in_json() {
    let site = Site::new(CLAUSES);
    let daemon = site.start();
    let mut client = control(&site);
    let name = site.put(&["c a.test deferred!1", "q b.test 2", "q b.test 3"]);
    site.put(&["q b.test 4"]);
    until_known(&mut client, 4);
    until("one was tried", || objects(&mut client, "SHOW JSON THREADS c/*")[0]["waiting"] == 1);

    let summary = object(&mut client, "SHOW JSON SUMMARY");
    let number = |object: &Value, field: &str| object[field].as_u64().expect(field);
    assert_eq!(number(&summary, "pid"), u64::from(daemon.pid()));
    assert_eq!((number(&summary, "messages"), number(&summary, "threads")), (2, 2));
    assert!(number(&summary, "oldest") < 100 && summary["loading"] == false, "{summary}");

    expect_like_example(&summary, "A summary:");

    let threads = objects(&mut client, "SHOW JSON THREADS sort=backlog");
    expect_like_example(&threads[1], "A thread:");
    assert_eq!(words(&threads, "why"), ["request", "retry"], "{threads:?}");
    assert_eq!(words(&threads, "ring"), ["q/*", "c/*"]);
    assert!(
        threads[0]["line"].as_str().is_some_and(|line| line.ends_with("scheduler.cf:11")),
        "{threads:?}"
    );
    assert_eq!(
        (&threads[0]["waiting"], &threads[1]["text"]),
        (&2.into(), &"as told: deferred".into())
    );
    assert_eq!(objects(&mut client, "SHOW JSON THREADS sort=oldest limit=1").len(), 1);
    assert_eq!(
        words(&objects(&mut client, "SHOW JSON THREADS sort=undelivered limit=1"), "channel"),
        ["c"]
    );
    assert_eq!(words(&objects(&mut client, "SHOW JSON THREADS */b.*"), "host"), ["b.test"]);
    for wrong in ["sort=x", "limit=0", "limit=x", "q", "older=1h", "a/b c"] {
        let answer = client.ask(&format!("SHOW JSON THREADS {wrong}"));
        assert!(answer.starts_with("-at byte "), "{wrong}: {answer}");
    }

    let rings = objects(&mut client, "SHOW JSON RINGS");
    let of_q = rings.iter().find(|ring| ring["pattern"] == "q/*").expect("a ring");
    assert_eq!((&of_q["messages"], &of_q["maxring"]), (&2.into(), &7.into()));
    expect_all_of(of_q, "A ring:");
    let agents = objects(&mut client, "SHOW JSON AGENTS");
    expect_all_of(&agents[0], "An agent:");
    assert_eq!((words(&agents, "state"), words(&agents, "ring")), (vec!["IDLE"], vec!["c/*"]));

    let messages = objects(&mut client, &format!("SHOW JSON MESSAGES id={name}"));
    assert_eq!(words(&messages, "place"), ["waiting", "waiting"]);
    expect_all_of(&messages[0], "A line of MESSAGES:");
    let found = objects(&mut client, "SHOW JSON MESSAGES */* recipient=4");
    assert_eq!((found.len(), &found[0]["host"]), (1, &"b.test".into()), "{found:?}");
    assert_eq!(objects(&mut client, "SHOW JSON MESSAGES */* limit=2").len(), 2);
    let id = messages[0]["id"].as_str().expect("an id").to_string();
    let message = object(&mut client, &format!("SHOW JSON MESSAGE {id}"));
    expect_all_of(&message, "MESSAGE:");
    let destinations = message["destinations"].as_array().expect("destinations");
    assert_eq!(
        (words(destinations, "why"), destinations[1]["recipients"].as_u64()),
        (vec!["retry", "request"], Some(2))
    );
    assert_eq!(destinations[1]["offsets"].as_array().map(Vec::len), Some(2));
    let text = client.ask(&format!("SHOW MESSAGE {id}"));
    assert!(
        text.contains("3 of 3 recipients left")
            && text.contains("q/b.test waits for a request for the host's mail"),
        "{text}"
    );

    client.order("HOLD q/* reason=\"looking\"");
    client.order("SET ring=c/* maxring=3 for=1h");
    let why = object(&mut client, "SHOW JSON WHY q/b.test");
    assert_eq!(
        (&why["why"], &why["held_by"]["reason"], &why["messages"]),
        (&"held".into(), &"looking".into(), &2.into())
    );
    let orders = objects(&mut client, "SHOW JSON ORDERS");
    assert_eq!(
        (words(&orders, "kind"), words(&orders, "scope")),
        (vec!["hold", "limit"], vec!["q/*", "ring=c/*"])
    );
    expect_all_of(&Value::Array(orders), "An order:");
    expect_all_of(&why, "A line of WHY has");
    assert_eq!(object(&mut client, "SHOW JSON SUMMARY")["held_threads"], 1);
    let counters = object(&mut client, "SHOW JSON COUNTERS");
    expect_all_of(&counters, "COUNTERS:");
    assert_eq!(
        (&counters["recipients_in"], &counters["mailq"]["show_snmp"]),
        (&4.into(), &0.into())
    );
    assert!(counters["longest_turn"].as_f64() > Some(0.0), "{counters}");
    assert!(counters["disks"]["queue"]["free_kb"].as_u64() > Some(0), "{counters}");
    assert!(client.refused("SHOW JSON MESSAGE 999").contains("no matching mail now: 999"));
    assert!(client.refused("SHOW JSON MESSAGES").contains("*/* is everything"));
}

/// Answers about very many destinations are written as the client reads them, and delivery goes on.
#[test]
fn slow_client_does_not_delay_delivery() {
    let site = Site::new(CLAUSES);
    let recipients: Vec<String> = (0..20_000).map(|number| format!("q h{number}.test u")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    let mut daemon = site.start();
    site.put(&recipients);
    let mut slow = control(&site);
    until_known(&mut slow, 20_000);
    slow.send("SHOW JSON THREADS\nSHOW JSON THREADS sort=oldest limit=3\n");
    for number in 0..20 {
        site.put(&[&format!("c a.test {number}")]);
    }
    until("mail is delivered meanwhile", || site.events().count("count") == 20);
    let mut other = control(&site);
    assert!(object(&mut other, "SHOW JSON SUMMARY")["threads"].as_u64() >= Some(20_000));
    assert_eq!(objects(&mut other, "SHOW JSON THREADS sort=backlog limit=10").len(), 10);
    for (expected, at_most) in [(20_000, 20_001), (3, 3)] {
        assert_eq!(slow.line(), "+OK until LF.LF\n");
        let mut count = 0;
        loop {
            let line = slow.line();
            if line == ".\n" {
                break;
            }
            let thread: Value = serde_json::from_str(&line).expect("an object a line");
            assert!(thread["host"].is_string());
            count += 1;
        }
        assert!((expected..=at_most).contains(&count), "{count}");
    }
    daemon.assert_runs();
}

#[test]
fn recipients_are_counted_by_age() {
    let site = Site::new(CLAUSES);
    let put = |recipients: &[&str], minutes: u64| {
        let name = site.put_quietly(recipients);
        let message = File::options().write(true).open(site.spool.message_file(&name));
        let modified = SystemTime::now() - Duration::from_secs(minutes * 60);
        message.expect("the message").set_modified(modified).expect("its time is set");
    };
    put(&["q a.test 1", "q a.test 2", "q b.test 3"], 0);
    put(&["q a.test 4"], 7);
    put(&["q b.test 5"], 1279);
    put(&["q b.test 6", "q b.test 7", "q c.test 8"], 5000);
    let _daemon = site.start();
    let mut client = control(&site);
    until_known(&mut client, 8);
    let ages = |client: &mut Client<UnixStream>, words: &str| -> Vec<(String, Vec<u64>)> {
        let lines = objects(client, &format!("SHOW JSON AGES{words}"));
        expect_all_of(&lines[0], "A line of AGES:");
        let row = |line: &Value| {
            let line: AgeStatus = serde_json::from_value(line.clone()).expect("a row");
            assert_eq!(line.ages.iter().sum::<u64>(), line.recipients, "{line:?}");
            (line.host.unwrap_or_default(), line.ages)
        };
        lines.iter().map(row).collect()
    };
    let row = |host: &str, ages: [u64; 10]| (host.to_string(), ages.to_vec());
    let (a, b) = ([2, 1, 0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    let (c, total) = ([0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [3, 1, 0, 0, 0, 0, 0, 0, 1, 3]);
    let all = [row("", total), row("b.test", b), row("a.test", a), row("c.test", c)];
    assert_eq!(ages(&mut client, ""), all);
    assert_eq!(ages(&mut client, " */* limit=2"), all[..3]);
    assert_eq!(ages(&mut client, " */a.*"), [row("", a), row("a.test", a)]);
    assert_eq!(ages(&mut client, " x/*"), [row("", [0; 10])]);
    for wrong in ["limit=0", "older=1h", "q"] {
        let answer = client.ask(&format!("SHOW JSON AGES {wrong}"));
        assert!(answer.starts_with("-at byte "), "{wrong}: {answer}");
    }
}

#[test]
fn subscribers_receive_matching_events() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let (mut all, mut other) = (control(&site), control(&site));
    assert!(other.refused("SUBSCRIBE older=1h").contains("by channel/host and id= alone"));
    all.send("SUBSCRIBE\n");
    other.send("SUBSCRIBE q/*\n");
    assert_eq!(
        (all.line(), other.line()),
        ("+OK until LF.LF\n".into(), "+OK until LF.LF\n".into())
    );
    site.put(&["c a.test 1", "c a.test error!2"]);
    let mut told: Vec<Value> = Vec::new();
    while told.last().is_none_or(|event| event["event"] != "left") {
        told.push(serde_json::from_str(&all.line()).expect("an object"));
    }
    let count = |event: &str| words(&told, "event").iter().filter(|word| **word == event).count();
    assert_eq!(
        (count("arrived"), count("agent-started"), count("attempt"), count("finished")),
        (1, 1, 2, 2)
    );
    told.iter().for_each(expect_documented);
    let of = |event: &str| told.iter().find(|object| object["event"] == event).expect("told");
    assert_eq!(of("arrived")["recipients"], 2);
    assert_eq!(
        (&of("attempt")["host"], &of("attempt")["status"]),
        (&"a.test".into(), &"delivered".into())
    );
    assert_eq!(of("left")["id"], of("arrived")["id"]);
    let offsets =
        told.iter().filter(|event| event["event"] == "attempt").map(|e| e["offset"].as_u64());
    assert_eq!(offsets.collect::<BTreeSet<_>>().len(), 2);
    // The event has the order as it was given.
    control(&site).order("HOLD q/*");
    let order: Value = serde_json::from_str(&all.line()).expect("an object");
    assert_eq!((&order["event"], &order["order"]), (&"order".into(), &"HOLD q/*".into()));
    // A subscription ends when its client sends a line.
    all.send("SHOW JSON SUMMARY\nQUIT\n");
    let rest: String = (0..5).map(|_| all.line()).collect();
    assert!(rest.starts_with(".\n+OK until LF.LF\n{") && rest.ends_with(".\n+Bye bye\n"), "{rest}");
    // The other subscriber has received nothing, since all events were about other mail.
    other.send("QUIT\n");
    assert_eq!((other.line(), other.line()), (".\n".into(), "+Bye bye\n".into()));
    site.until_empty();
}

/// Events that a subscriber does not read are dropped and counted, and delay nothing.
#[test]
fn stalled_subscriber_loses_events_only() {
    let site = Site::new(CLAUSES);
    let mut daemon = site.start();
    let mut client = control(&site);
    client.send("SUBSCRIBE */*\n");
    assert_eq!(client.line(), "+OK until LF.LF\n");
    let recipients: Vec<String> =
        (0..6000).map(|number| format!("fast a.test u{number}")).collect();
    site.put(&recipients.iter().map(String::as_str).collect::<Vec<&str>>());
    site.until_empty();
    assert!(object(&mut control(&site), "SHOW JSON SUMMARY")["recipients"] == 0);
    let (mut finished, mut attempts, mut dropped) = (0, 0, 0);
    // Each recipient has two events; the client receives an event, or it is counted as dropped.
    let is_over =
        |finished: u64, attempts: u64, dropped: u64| finished + attempts + dropped >= 12_000;
    while !is_over(finished, attempts, dropped) {
        let event: Value = serde_json::from_str(&client.line()).expect("an object");
        match event["event"].as_str() {
            Some("finished") => finished += 1,
            Some("attempt") => attempts += 1,
            Some("dropped") => dropped += event["count"].as_u64().expect("a number"),
            _ => {}
        }
    }
    assert!(dropped > 1000, "{finished} {attempts} {dropped}");
    site.put(&["c a.test 1"]);
    until("it goes on", || client.line().contains("\"left\""));
    // The client disconnects without a request.
    drop(client);
    site.put(&["c a.test 2"]);
    site.until_empty();
    hold_for(Duration::from_millis(100), "the scheduler goes on", || {
        daemon.assert_runs();
        true
    });
}

/// Creates a site that speaks version 2 on a TCP port, with these accounts.
fn with_accounts(accounts: &str) -> Site {
    let site = Site::new("");
    site.write("auth", accounts);
    allow(site.path("auth"), 0o600);
    let parameters = "PARAMmailqsock=TCP:0\nPARAMauthfile=\"${SITE}/auth\"\n";
    site.write("scheduler.cf", &format!("{parameters}{CLAUSES}"));
    site
}

/// Logs in with SCRAM and verifies the server's proof. Returns the server's line if it refuses.
fn log_in<S: Read + Write>(
    client: &mut Client<S>,
    user: &str,
    password: &str,
) -> Result<(), String> {
    let login = scram::Client::new(user, password).expect("random numbers");
    let first = client.ask(&format!("AUTH2 SCRAM-SHA-256 {}", login.first()));
    let Some(challenge) = first.strip_prefix('+') else { return Err(first) };
    let (last, proven) = login.prove(challenge.as_bytes()).expect("a good message");
    let verdict = client.ask(&last);
    let Some(signature) = verdict.strip_prefix("+OK ") else { return Err(verdict) };
    proven.verify(signature.as_bytes()).expect("the server knows the password");
    Ok(())
}

#[test]
fn users_log_in_by_scram() {
    let stored = StoredPassword::from_password("pässword").expect("random numbers");
    let accounts = format!("strong:{stored}:QQ EVENTS:\nplain:sekret:ALL:\n");
    let site = with_accounts(&accounts);
    let _daemon = site.start();
    let wrong = || Err("-BAD USER OR PASSWORD\n".to_string());
    let mut client = Client::of(&site);
    for request in ["SHOW JSON SUMMARY", "SUBSCRIBE", "SHOW JSON COUNTERS", "SHOW MESSAGE 1"] {
        assert_eq!(client.ask(request), "-BAD; USER MUST AUTHENTICATE\n");
    }
    assert_eq!(log_in(&mut client, "strong", "password"), wrong());
    assert_eq!(log_in(&mut client, "nobody", "password"), wrong(), "as if there were one");
    assert_eq!(log_in(&mut client, "plain", "sekret"), Err("-USE AUTH\n".to_string()));
    let no_account = "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n";
    assert_eq!(client.log_in("strong", "pässword"), no_account, "AUTH does not know hashes");
    // The other Unicode form of the password is equal.
    assert_eq!(log_in(&mut client, "strong", "pa\u{308}ssword"), Ok(()));
    assert_eq!(objects(&mut client, "SHOW JSON SUMMARY").len(), 1);
    assert!(client.ask("SHOW JSON THREADS").starts_with("-MAILQ2 Unknown command"));
    let mut client = Client::of(&site);
    assert_eq!(client.log_in("plain", "sekret"), "+OK\n");
    until("the login is logged", || site.logged("logged in as \"strong\": QQ EVENTS") == 1);
    until("it is logged", || site.logged("login from 127.0.0.1 as \"strong\" failed") >= 1);
}

/// An unknown user has the same salt each time, as a known one does.
#[test]
fn unknown_user_looks_like_known_user() {
    let stored = StoredPassword::with_salt("x", vec![7; 16], 5000);
    let site = with_accounts(&format!("strong:{stored}:ALL:\n"));
    let _daemon = site.start();
    let challenge = |user: &str| {
        let login = scram::Client::new(user, "y").expect("random numbers");
        let mut client = Client::of(&site);
        let first = client.ask(&format!("AUTH2 SCRAM-SHA-256 {}", login.first()));
        let first = first.strip_prefix('+').expect("a challenge").trim_end();
        use base64::Engine;
        let first = base64::engine::general_purpose::STANDARD.decode(first).expect("base64");
        let first = String::from_utf8(first).expect("text");
        let (nonce, rest) = first.split_once(",s=").expect("a salt");
        (nonce.len(), rest.len(), rest.to_string())
    };
    let (of_strong, for_unknown_user) = (challenge("strong"), challenge("nobody"));
    assert_eq!((of_strong.0, of_strong.1), (for_unknown_user.0, for_unknown_user.1));
    assert!(for_unknown_user.2.ends_with(",i=5000") && of_strong.2 != for_unknown_user.2);
    assert_eq!(for_unknown_user, challenge("nobody"));
    assert_ne!(for_unknown_user.2, challenge("other").2);
}
