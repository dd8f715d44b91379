//! Aliases, lists and virtual domains, from files to control files.

use super::support::{Site, lines, parse};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use zsched_format::control_file::diagnostic::DiagnosticRecord;

const RULES: &str = "local zm.example.test\nusers file DIR/users\naliases DIR/aliases\n\
    virtual DIR/virtual\nprogram-channel pipe\n";

fn site(aliases: &str) -> Site {
    let site = Site::new(RULES);
    site.write("users", "alice\nbob\nroot\n");
    site.write(
        "virtual",
        "sales@v.test: alice\n@v.test: bob\n@w.test: @v.test\nonly@u.test: bob\n",
    );
    site.write("aliases", aliases.replace("DIR", &site.path("").to_string_lossy()));
    site
}

/// The control file of a message to some recipients; each may have DSN parameters after a blank.
fn routed(site: &Site, recipients: &[&str]) -> String {
    let recipient = |text: &&str| match text.split_once(' ') {
        Some((address, notify)) => format!("todsn {notify}\nto <{address}>\n"),
        None => format!("to <{text}>\n"),
    };
    let recipients: String = recipients.iter().map(recipient).collect();
    site.route_one(format!("from <s@far.test>\n{recipients}env-end\nSubject: x\n\nbody\n"))
}

/// Action, status and address of the reports owed.
fn reports(text: &str) -> Vec<String> {
    let file = parse(text);
    let report = |line: &zsched_format::control_file::DiagnosticLine| {
        let record = DiagnosticRecord::parse(file.get(line.value)).expect("a d line");
        let notary = String::from_utf8_lossy(record.notary).into_owned();
        let fields: Vec<&str> = notary.split('\u{1}').collect();
        let recipient = file.recipient_at(record.recipient).expect("its recipient");
        let user = String::from_utf8_lossy(file.get(recipient.quad.user));
        format!("{user} {} {}", fields[1], fields[2])
    };
    file.diagnostics.iter().map(report).collect()
}

#[test]
fn alias_leads_to_users_and_hosts_once() {
    let site = site("staff: alice, Bob, far@there.test,\n\talice, nested\nnested: bob\n");
    let made = routed(&site, &["STAFF@zm.example.test", "bob@zm.example.test"]);
    let arrival = "N INRCPT=rfc822;STAFF@zm.example.test";
    assert_eq!(
        lines(&made, "rN"),
        [
            "r local alice@zm.example.test alice@zm.example.test 65534",
            arrival,
            "r local bob@zm.example.test bob@zm.example.test 65534",
            "r smtp there.test far@there.test 65534",
            arrival,
        ]
    );
}

#[test]
fn list_with_owner_has_its_own_sender() {
    let site = site("list: alice, far@there.test\nowner-list: bob\n");
    let made = routed(
        &site,
        &["far@other.test", "list@zm.example.test NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;l@x"],
    );
    assert_eq!(
        lines(&made, "esrN"),
        [
            "e <s@far.test>",
            "e s@far.test",
            &format!("s smtp far.test s@far.test {}", owner(&site)),
            "r smtp other.test far@other.test 65534",
            "r+ local list@zm.example.test list@zm.example.test 65534",
            "N NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;l@x",
            "e owner-list@zm.example.test",
            &format!(
                "s local owner-list@zm.example.test owner-list@zm.example.test {}",
                owner(&site)
            ),
            "r local alice@zm.example.test alice@zm.example.test 65534",
            "r smtp there.test far@there.test 65534",
        ]
    );
    let sent = "sent to the members of the list";
    assert_eq!(reports(&made), [format!("list@zm.example.test delivered 2.1.5 ({sent})")]);
}

/// The envelope id of the sender does not name the envelope of a list.
#[test]
fn envelope_of_list_has_no_id_of_sender() {
    let site = site("list: alice\nowner-list: bob\n");
    let parameters = |others: &str| {
        let made = site.route_one(format!(
            "envid QQ\nnotaryret HDRS\nfrom <s@far.test>\nto <list>\n{others}env-end\n\nbody\n"
        ));
        lines(&made, "esrRn").iter().map(|line| line[..1].to_string()).collect::<String>()
    };
    assert_eq!(parameters(""), "eesr");
    assert_eq!(parameters("to <bob>\n"), "eesrRnesr");
}

/// User id of the files, which is that of the test.
fn owner(site: &Site) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(site.path("users")).expect("it is there").uid()
}

#[test]
fn alias_of_several_addresses_reports_expansion_instead_of_delivery() {
    let site = site("both: alice, bob\none: root\n");
    let made = routed(
        &site,
        &["both@zm.example.test NOTIFY=SUCCESS", "one@zm.example.test NOTIFY=SUCCESS"],
    );
    let notify: Vec<String> = lines(&made, "N");
    assert_eq!(
        notify,
        [
            "N NOTIFY=NEVER INRCPT=rfc822;both@zm.example.test",
            "N NOTIFY=NEVER INRCPT=rfc822;both@zm.example.test",
            "N NOTIFY=SUCCESS",
            "N NOTIFY=SUCCESS INRCPT=rfc822;one@zm.example.test",
        ]
    );
    assert_eq!(
        reports(&made),
        ["both@zm.example.test expanded 2.1.5 (an alias of several addresses)"]
    );
}

/// Both orders of two recipients give the same recipients: each with the sender of its group, and
/// its DSN parameters without INRCPT.
fn routed_in_both_orders(site: &Site, recipients: [&str; 2]) -> Vec<String> {
    let [first, second] = recipients;
    let summary = |recipients: &[&str]| {
        let made = routed(site, recipients);
        let file = parse(&made);
        let user = |span| String::from_utf8_lossy(file.get(span)).into_owned();
        let mut found: Vec<String> = Vec::new();
        for one in &file.recipients {
            let notify = one.notify.map_or(String::new(), |line| user(line.value));
            let words = notify.split(' ').filter(|word| !word.starts_with("INRCPT="));
            let words: Vec<&str> = words.collect();
            let sender = user(file.senders[one.sender.expect("it has one") as usize].quad.user);
            let (user, tag) = (user(one.quad.user), char::from(one.tag.byte()));
            found.push(format!("{sender}: {user}{tag}{}", words.join(" ")).trim_end().into());
        }
        found.sort();
        found
    };
    let found = summary(&[first, second]);
    assert_eq!(summary(&[second, first]), found, "the other order");
    found
}

/// The sender keeps the reports about an address that it wrote itself (RFC 3461, 4.1).
#[test]
fn recipient_of_envelope_takes_precedence_over_member_of_list() {
    let site = site("list: bob, lost@there.test\nowner-list: alice\nall: bob, alice\n");
    assert_eq!(
        routed_in_both_orders(&site, ["list", "lost@there.test"]),
        ["owner-list@zm.example.test: bob@zm.example.test", "s@far.test: lost@there.test"]
    );
    assert_eq!(
        routed_in_both_orders(
            &site,
            ["list NOTIFY=SUCCESS", "bob NOTIFY=SUCCESS ORCPT=rfc822;b@x"]
        ),
        [
            "owner-list@zm.example.test: lost@there.test",
            "s@far.test: bob@zm.example.test NOTIFY=SUCCESS ORCPT=rfc822;b@x",
            "s@far.test: list@zm.example.test+NOTIFY=SUCCESS",
        ]
    );
    assert_eq!(
        routed_in_both_orders(&site, ["list", "all"]),
        [
            "owner-list@zm.example.test: lost@there.test",
            "s@far.test: alice@zm.example.test",
            "s@far.test: bob@zm.example.test",
        ]
    );
    assert_eq!(
        routed_in_both_orders(&site, ["all NOTIFY=SUCCESS", "bob NOTIFY=SUCCESS"]),
        [
            "s@far.test: alice@zm.example.test NOTIFY=NEVER",
            "s@far.test: all@zm.example.test+NOTIFY=SUCCESS",
            "s@far.test: bob@zm.example.test NOTIFY=SUCCESS",
        ]
    );
}

#[test]
fn wishes_of_one_sender_for_one_recipient_add_up() {
    let site = site("fwd: z@there.test\nall: bob, fwd\nlost: unknown\n");
    for (first, second, expected) in [
        ("fwd NOTIFY=NEVER", "z@there.test NOTIFY=FAILURE", "NOTIFY=FAILURE"),
        ("fwd NOTIFY=NEVER", "z@there.test", ""),
        ("fwd NOTIFY=DELAY", "z@there.test NOTIFY=SUCCESS", "NOTIFY=SUCCESS,DELAY"),
        ("fwd NOTIFY=SUCCESS", "z@there.test", "NOTIFY=SUCCESS,FAILURE,DELAY"),
        ("fwd ORCPT=rfc822;f@x", "z@there.test", "ORCPT=rfc822;f@x"),
        ("fwd ORCPT=rfc822;f@x", "z@there.test ORCPT=rfc822;z@x", "ORCPT=rfc822;z@x"),
        ("fwd REQUIRETLS", "z@there.test NOTIFY=NEVER", "REQUIRETLS"),
    ] {
        let expected = format!("s@far.test: z@there.test {expected}");
        assert_eq!(routed_in_both_orders(&site, [first, second]), [expected.trim_end()], "{first}");
    }
    assert_eq!(
        routed_in_both_orders(
            &site,
            ["all@localhost NOTIFY=NEVER", "all@zm.example.test NOTIFY=SUCCESS,FAILURE"]
        ),
        [
            "s@far.test: all@zm.example.test+NOTIFY=SUCCESS,FAILURE",
            "s@far.test: bob@zm.example.test NOTIFY=FAILURE",
            "s@far.test: z@there.test NOTIFY=FAILURE",
        ]
    );
    assert_eq!(
        routed_in_both_orders(&site, ["lost NOTIFY=NEVER", "unknown NOTIFY=FAILURE"]),
        ["s@far.test: unknown@zm.example.test-NOTIFY=FAILURE"]
    );
}

/// Expansions of one alias for two spellings of its address have an end each.
#[test]
fn each_address_of_alias_has_its_report() {
    let site = site("list: bob\nowner-list: alice\nall: bob, alice\n");
    for (name, members) in [("list", 1), ("all", 2)] {
        let addresses =
            ["localhost", "zm.example.test"].map(|at| format!("{name}@{at} NOTIFY=SUCCESS"));
        let found = routed_in_both_orders(&site, addresses.each_ref().map(String::as_str));
        let ends = found.iter().filter(|one| one.contains("+NOTIFY=SUCCESS"));
        assert_eq!((ends.count(), found.len()), (2, 2 + members), "{found:?}");
    }
}

/// The poster gets the refusal, not the owner: no member has got the message.
#[test]
fn empty_list_is_refused() {
    let aliases = "empty: :include:DIRempty\nlist: :include:DIRempty\nowner-list: alice\n\
        outer: :include:DIRouter\nboth: :include:DIRempty, bob\nnested: empty, bob\n";
    let site = site(aliases);
    site.write("outer", format!(":include:{}\n", site.path("empty").display()));
    for text in ["", "# a comment\n\n  \n", "a b c\n"] {
        site.write("empty", text);
        for name in ["empty", "list", "outer"] {
            let addresses = ["zm.example.test", "localhost"]
                .map(|at| format!("{name}@{at} NOTIFY=SUCCESS,FAILURE"));
            let made = routed(&site, &[&addresses[0]]);
            let report = format!("{name}@zm.example.test failed 5.2.4 (the list has no members)");
            assert_eq!(reports(&made), [report], "{text:?}");
            let expected = ["localhost", "zm.example.test"]
                .map(|at| format!("s@far.test: {name}@{at}-NOTIFY=SUCCESS,FAILURE"));
            let found = routed_in_both_orders(&site, addresses.each_ref().map(String::as_str));
            assert_eq!(found, expected);
        }
        let found = routed_in_both_orders(&site, ["both", "nested"]);
        let expected = ["bob@zm.example.test", "empty@zm.example.test-"];
        assert_eq!(found, expected.map(|one| format!("s@far.test: {one}")));
    }
}

/// An alias is expanded again only for events that no recipient before it asks for.
#[test]
fn large_alias_that_is_named_often_is_routed() {
    const COUNT: usize = 100_000;
    let members: Vec<String> = (0..COUNT).map(|number| format!("u{number}@there.test")).collect();
    let site = site(&format!("all: {}\n", members.join(",\n\t")));
    let named = ["all@localhost NOTIFY=NEVER", "all NOTIFY=SUCCESS,DELAY", "all NOTIFY=FAILURE"];
    let made = routed(&site, &named.repeat(1000));
    assert_eq!(parse(&made).recipients.len(), COUNT + 1);
    let (ends, members): (Vec<String>, Vec<String>) =
        lines(&made, "N").into_iter().partition(|line| line.contains("SUCCESS"));
    assert_eq!(ends, ["N NOTIFY=SUCCESS,DELAY"]);
    assert!(members.iter().all(|line| line == "N INRCPT=rfc822;all@localhost"), "the default");
}

#[test]
fn loops_and_unknown_users_are_refused() {
    let site =
        site("a: b, alice\nb: c\nc: a\nself: self, bob\nbob: bob, alice\ngone: nobody-here\n");
    let made = routed(
        &site,
        &[
            "a@zm.example.test",
            "bob@zm.example.test",
            "self@zm.example.test",
            "gone@zm.example.test",
            "x%y@zm.example.test",
            "\"|sh\"@zm.example.test",
            "never@zm.example.test NOTIFY=NEVER",
        ],
    );
    assert_eq!(
        reports(&made),
        [
            "a@zm.example.test failed 5.4.6 (a loop of aliases: a, b, c, a)",
            "self@zm.example.test failed 5.1.1 (no such user here)",
            "nobody-here@zm.example.test failed 5.1.1 (no such user here)",
            "x%y@zm.example.test failed 5.7.1 (routes with % are not followed)",
            "\"|sh\"@zm.example.test failed 5.1.3 (programs and files are no addresses)",
            "never@zm.example.test failed 5.1.1 (no such user here)",
        ]
    );
    assert!(made.contains("\nr-          error expansion a@zm.example.test 65534\n"), "{made}");
    assert!(
        made.contains("\nr-          error unresolvable never@zm.example.test 65534\n"),
        "{made}"
    );
    let users = lines(&made, "r").into_iter().filter(|line| line.starts_with("r local"));
    assert_eq!(users.count(), 2, "{made}");
}

#[test]
fn programs_files_and_lists_come_from_trusted_files_only() {
    let site = site("p: \"|/bin/cat, x\", /var/mail/archive, :include:DIRlist\n");
    site.write("list", "# a comment\nalice, Bob Builder <bob>\n|/bin/sh\n:include:/etc/shadow\n");
    let uid = owner(&site);
    let made = routed(&site, &["p@zm.example.test"]);
    assert_eq!(
        lines(&made, "r")[..2],
        [
            format!("r pipe pipe.p@zm.example.test \"|/bin/cat, x\" {uid}"),
            format!("r local file.p@zm.example.test /var/mail/archive {uid}"),
        ]
    );
    fs::set_permissions(site.path("list"), Permissions::from_mode(0o666)).expect("set");
    let made = routed(&site, &["p@zm.example.test"]);
    assert_eq!(lines(&made, "r").len(), 5, "{made}");
    assert_eq!(
        reports(&made),
        ["p@zm.example.test failed 5.7.0 (its list may not name programs and files)"]
    );
    fs::set_permissions(site.path("aliases"), Permissions::from_mode(0o666)).expect("set");
    let output = site.run(&["-t"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("aliases:1:4: error: programs and files are for files that"), "{said}");
}

/// Only aliases in trusted files lead to programs and files: neither lists nor senders name them.
#[test]
fn no_address_leads_to_program_or_file() {
    let site = site("list: :include:DIRlist\n");
    site.configure(&format!("{RULES}route x.test local - $local\nroute y.test smtp\n"));
    site.write("list", "\\/tmp/file\n\\\"|sh\"\n");
    let made = routed(
        &site,
        &["list", "/tmp/a@x.test", "|sh@x.test", "\"\\|sh\"@x.test", "bob@x.test", "/c=x/@y.test"],
    );
    let privileged = lines(&made, "r").into_iter().filter(|line| line.starts_with("r local"));
    assert_eq!(privileged.collect::<Vec<String>>(), ["r local - bob 65534"], "{made}");
    assert_eq!(reports(&made).len(), 5, "{made}");
    assert!(lines(&made, "r").contains(&"r smtp y.test /c=x/@y.test 65534".into()), "{made}");
}

#[test]
fn virtual_addresses_lead_to_others() {
    let site = site("alice: \\alice\n");
    let made =
        routed(&site, &["Sales@V.test", "any+x@v.test", "z@w.test", "only@u.test", "other@u.test"]);
    assert_eq!(
        lines(&made, "r"),
        [
            "r local alice@zm.example.test alice@zm.example.test 65534",
            "r local bob@zm.example.test bob@zm.example.test 65534",
            "r- error unresolvable other@u.test 65534",
        ]
    );
}

/// Mail to each user of such a domain goes to another address.
#[test]
fn domain_that_stands_for_another_has_all_its_users() {
    let site = site("");
    site.write("virtual", "sales@v.test: alice\n@w.test: @v.test\n@v.test: @there.test\n");
    let made = routed(&site, &["z@w.test", "sales@w.test", "y@w.test", "z@v.test"]);
    assert_eq!(
        lines(&made, "r"),
        [
            "r smtp there.test z@there.test 65534",
            "r local alice@zm.example.test alice@zm.example.test 65534",
            "r smtp there.test y@there.test 65534",
        ]
    );
}

#[test]
fn postmaster_always_exists() {
    let site = site("");
    let made = routed(&site, &["Postmaster", "MAILER-DAEMON@zm.example.test"]);
    assert_eq!(lines(&made, "r"), ["r local root@zm.example.test root@zm.example.test 65534"]);
    site.write("users", "alice\n");
    assert_eq!(lines(&routed(&site, &["postmaster"]), "r").len(), 1);
    assert_eq!(reports(&routed(&site, &["postmaster"])), [""; 0]);
}

#[test]
fn message_waits_while_name_service_finds_no_user() {
    let site = Site::new("local zm.example.test\nusers system\n");
    let library = zsched_tests::failing_name_service(&site.path(""));
    let number =
        site.submit("one", "from <s@far.test>\nto <daemon>\nenv-end\nSubject: x\n\nbody\n");
    for answer in ["0", "2", "5"] {
        let mut router = site.router(&["--once"]);
        router.env("LD_PRELOAD", &library).env("ANSWER", answer);
        let output = router.output().expect("the router starts");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(75), "{log}");
        assert!(log.contains("the user daemon cannot be looked up: "), "{log}");
        assert_eq!(site.names("router"), ["one"]);
    }
    site.route();
    assert_eq!(site.names("transport"), [number.to_string()]);
}

#[test]
fn unknown_user_waits_while_known_account_is_missing() {
    let site = Site::new("local zm.example.test\nknown-account root only-ldap-has-this\n");
    site.submit("one", "from <s@far.test>\nto <no-such-account>\nenv-end\n\nbody\n");
    let output = site.run(&["--once"]);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let why = "the name service does not find the known account only-ldap-has-this";
    assert!(log.contains(why), "{log}");
    site.configure("local zm.example.test\nknown-account root\n");
    site.route();
    assert_eq!(site.names("router"), [""; 0], "the sender gets a report");
}

#[test]
fn unreadable_list_defers_message() {
    let site = site("list: :include:DIRgone\n");
    let submission = "from <s@far.test>\nto <list>\nenv-end\nSubject: x\n\nbody\n";
    let number = site.submit("one", submission);
    let output = site.run(&["--once"]);
    assert_eq!(output.status.code(), Some(75));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("gone of list@zm.example.test cannot be read"), "{log}");
    assert_eq!(site.names("router"), ["one"]);
    site.write("gone", "alice\n");
    site.route();
    assert_eq!(site.names("transport"), [number.to_string()]);
}

/// The others wait with it, since they may be members of the list, too; but not for ever.
#[test]
fn unreadable_list_is_refused_when_message_expires() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let aliases = "inc: :include:DIRgone\npart: bob, :include:DIRgone\nowner-part: root\n\
        outer: inc, alice\n";
    let site = site(aliases);
    let ends = |recipients: &[&str]| {
        let to: String = recipients.iter().map(|one| format!("to <{one}>\n")).collect();
        let text = format!("from <s@far.test>\n{to}env-end\nSubject: x\n\nbody\n");
        let number = site.submit_old("old", text, DAY);
        let log = site.route();
        assert!(log.contains("gone of inc@zm.example.test cannot be read: No such file"), "{log}");
        assert!(log.contains("; it has expired, so such recipients are refused"), "{log}");
        let made = site.read(&format!("postoffice/transport/{number}"));
        let users = lines(&made, "r").into_iter().filter(|line| line.starts_with("r local"));
        (users.count(), reports(&made))
    };
    let failed =
        |name: &str| format!("{name}@zm.example.test failed 4.4.3 (the list cannot be read)");
    for recipients in [["inc", "bob"], ["bob", "inc"]] {
        assert_eq!(ends(&recipients), (1, vec![failed("inc")]));
    }
    let both = ends(&["inc", "part", "inc@localhost", "outer"]);
    let inc = failed("inc");
    assert_eq!(
        both,
        (2, vec![inc.clone(), failed("part"), inc.replace("zm.example.test", "localhost")])
    );
    for expiry in ["0", "25h"] {
        site.configure(&format!("{RULES}expiry {expiry}\n"));
        let text = "from <s@far.test>\nto <inc>\nto <bob>\nenv-end\nSubject: x\n\nbody\n";
        site.submit_old("young", text, DAY);
        assert_eq!(site.run(&["--once"]).status.code(), Some(75), "{expiry}");
        assert_eq!(site.names("router"), ["young"]);
    }
    site.configure(&format!("{RULES}expiry 24h\n"));
    site.route();
    assert_eq!(site.names("router"), [""; 0]);
}

#[test]
fn detail_belongs_to_user() {
    let site = site("list: far@there.test\n");
    let made = routed(&site, &["alice+news@zm.example.test", "list+x@zm.example.test", "ALICE"]);
    assert_eq!(
        lines(&made, "r"),
        [
            "r local alice+news@zm.example.test alice+news@zm.example.test 65534",
            "r smtp there.test far@there.test 65534",
            "r local alice@zm.example.test alice@zm.example.test 65534",
        ]
    );
}

#[test]
fn try_shows_lines_that_decide() {
    let site = site("list: alice, far@there.test, b\nowner-list: bob\nb: list\n");
    let output = site.run(&["--try", "list", "bob@zm.example.test"]);
    assert_eq!(output.status.code(), Some(1), "there is a loop");
    let folder = site.path("").to_string_lossy().into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).replace(&folder, "DIR/");
    expect_test::expect![[r#"
        list@zm.example.test: list with sender owner-list (DIR//aliases:1)
          alice@zm.example.test: local alice@zm.example.test alice@zm.example.test (router.cf:2)
          far@there.test: smtp there.test far@there.test (built in)
          b@zm.example.test: alias (DIR//aliases:3)
            list@zm.example.test: refused: 5.4.6 a loop of aliases: list, b, list (DIR//aliases:1)
        bob@zm.example.test: local bob@zm.example.test bob@zm.example.test (router.cf:2)
    "#]]
    .assert_eq(&printed);
}
