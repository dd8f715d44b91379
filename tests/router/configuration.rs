//! `router -t`, errors in `router.cf`, and the order of its lines.

use super::support::Site;

fn said(site: &Site, arguments: &[&str]) -> (Option<i32>, String) {
    let output = site.run(arguments);
    let folder = site.path("").to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    (output.status.code(), text.replace(&folder, ""))
}

#[test]
fn all_errors_are_shown_with_their_places() {
    let site = Site::new("");
    site.write(
        "router.cf",
        "# a comment\nhostnam x\nroute  *.example.org\nroute a b c d e\nlocal [ab\n\
         smarthost a\nsmarthost b\nrefuse x 4.0.0\nroute x SMTP\nroute x smtp $host\n\
         users file\nvirtual \"/a b\nlocal ${NONE}\ndetail ++\npostmaster\n",
    );
    let (status, text) = said(&site, &["-t"]);
    assert_eq!(status, Some(1));
    expect_test::expect![[r#"
        router.cf:2:1: error: unknown keyword `hostnam`; did you mean `hostname`?
        hostnam x
        ^
        router.cf:3:1: error: after `route` comes a domain or address, a channel, and perhaps a host and a user
        route  *.example.org
        ^
        router.cf:4:15: error: `e` is too much: after `route` comes a domain or address, a channel, and perhaps a host and a user
        route a b c d e
                      ^
        router.cf:5:7: error: this `[` has no `]`; a plain one is written `\[`
        local [ab
              ^
        router.cf:7:1: error: `smarthost` is set in line 6 already
        smarthost b
        ^
        router.cf:8:10: error: `4.0.0` is no status code such as 5.1.1
        refuse x 4.0.0
                 ^
        router.cf:9:9: error: the channel `SMTP` is no word in lower case
        route x SMTP
                ^
        router.cf:10:14: error: after a $ comes domain, local or address
        route x smtp $host
                     ^
        router.cf:11:7: error: after `users file` comes a path
        users file
              ^
        router.cf:12:9: error: this quote is not closed on its line
        virtual "/a b
                ^
        router.cf:13:7: error: the ZENV file has no `NONE`
        local ${NONE}
              ^
        router.cf:14:8: error: a character such as +, or none
        detail ++
               ^
        router.cf:15:1: error: after `postmaster` comes an address
        postmaster
        ^
        router: router.cf cannot be used
    "#]].assert_eq(&text);
}

#[test]
fn first_line_that_matches_decides() {
    let site = Site::new(
        "users any\n\
         route  Bob@Example.net   special\n\
         refuse *spam*@*\n\
         route  *.example.net     sub     $domain  $local\n\
         local  example.net\n\
         route  [192.0.2.1]       literal\n\
         route  \\[*\\]           literals\n\
         smarthost relay.test\n",
    );
    let (_, text) = said(
        &site,
        &[
            "--try",
            "bob@example.net",
            "BOB@x.example.net",
            "antispammer@anywhere.test",
            "carol@example.net",
            "d@[192.0.2.1]",
            "d@[IPv6:2001:db8::1]",
            "e@other.test",
            "f@localhost",
            "g@zm.example.test",
        ],
    );
    expect_test::expect![[r#"
        bob@example.net: special example.net bob@example.net (router.cf:3)
        BOB@x.example.net: sub x.example.net BOB (router.cf:5)
        antispammer@anywhere.test: refused: 5.1.1 no mail is accepted for this address (router.cf:4)
        carol@example.net: local carol@example.net carol@example.net (router.cf:6)
        d@[192.0.2.1]: literal [192.0.2.1] d@[192.0.2.1] (router.cf:7)
        d@[ipv6:2001:db8::1]: literals [ipv6:2001:db8::1] d@[ipv6:2001:db8::1] (router.cf:8)
        e@other.test: smtp relay.test e@other.test (router.cf:9)
        f@localhost: local f@localhost f@localhost (built in)
        g@zm.example.test: local g@zm.example.test g@zm.example.test (built in)
    "#]]
    .assert_eq(&text);
}

#[test]
fn built_in_rules_apply_without_file() {
    let site = Site::new("");
    std::fs::remove_file(site.path("router.cf")).expect("removed");
    site.write("zmailer.conf", format!("MAILSHARE={}\n", site.path("").display()));
    let zenv = site.path("zmailer.conf");
    let output = std::process::Command::new(super::support::ROUTER)
        .args(["--zenv", zenv.to_str().expect("text"), "--try", "root@localhost", "a@b.test"])
        .output()
        .expect("the router starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        text,
        "root@localhost: local root@localhost root@localhost (built in)\n\
         a@b.test: smtp b.test a@b.test (built in)\n"
    );
}

#[test]
fn warnings_name_lines_that_are_never_used() {
    let site = Site::new("route * smtp relay.test\nlocal example.net\n");
    let (status, text) = said(&site, &["-t"]);
    assert_eq!(status, Some(0));
    assert!(
        text.contains("router.cf:3:7: warning: never used: line 2 matches everything"),
        "{text}"
    );
    assert!(text.contains("router.cf: can be used, 0 aliases, 0 virtual addresses, 1 warning"));
}

/// No line of a large file is left out.
#[test]
fn large_file_is_read_to_its_end() {
    let lines = "local a-domain-of-our-own.test\n".repeat(100_000);
    let site = Site::new(&format!("{lines}route last.test special\n"));
    let (_, text) = said(&site, &["--try", "a@last.test"]);
    assert!(text.starts_with("a@last.test: special last.test "), "{text}");
}
