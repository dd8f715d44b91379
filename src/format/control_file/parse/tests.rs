use super::*;
use std::fmt::Write as _;

/// A readable dump of the parsed fields: one line a field, with offsets.
fn dump(text: &str) -> String {
    let file = match parse(text.as_bytes().to_vec()) {
        Ok(file) => file,
        Err(error) => return format!("error: {error}\n"),
    };
    let show = |span: Span| String::from_utf8_lossy(file.get(span)).into_owned();
    let mut out = String::new();
    for (id, span) in [('i', file.name), ('l', file.log_id), ('e', file.error_address)] {
        if let Some(span) = span {
            writeln!(out, "{id} {}", show(span)).expect("a String takes everything");
        }
    }
    for turn in &file.etrn_hosts {
        writeln!(out, "T {}", show(*turn)).expect("a String takes everything");
    }
    for r in &file.recipients {
        let quad = [r.quad.channel, r.quad.host, r.quad.user, r.quad.privilege].map(show).join("|");
        let notify = r.notify.map(|n| format!(" N@{}", n.offset)).unwrap_or_default();
        let headers = file.headers_of(r).map(|h| format!(" m@{}", h.offset)).unwrap_or_default();
        let (tag, lock) = (r.tag, r.lock.and_then(PidField::pid));
        writeln!(out, "{} {tag:?} {lock:?} {quad}{notify}{headers}", r.offset)
            .expect("a String takes everything");
    }
    for x in &file.alternatives {
        let notify = x.notify.map(|n| format!(" N@{}", n.offset)).unwrap_or_default();
        let quad = String::from_utf8_lossy(file.text_of(&x.quad));
        writeln!(out, "{} {:?} class {} {quad}{notify}", x.offset, x.tag, x.class)
            .expect("a String takes everything");
    }
    for d in &file.diagnostics {
        writeln!(out, "d@{} reported={}", d.offset, d.reported).expect("a String takes everything");
    }
    for line in &file.undeliverable_lines {
        writeln!(out, "undeliverable: {line}").expect("a String takes everything");
    }
    out
}

fn check(text: &str, expected: expect_test::Expect) {
    expected.assert_eq(&dump(text));
}

#[test]
fn documented_example_has_expected_offsets() {
    let text = "@ 0x00000007\ni 4711-2342\no 212\nl <20260102030405.A4711@relay.example.org>\n\
         s local - alice@example.org 1001\n\
         r           smtp mx.example.net bob@example.net 1001\n\
         N NOTIFY=FAILURE,DELAY ORCPT=rfc822;bob@example.net\n\
         r           local dave dave 1001\n\
         m\nReceived: by relay.example.org id <S4711-2342>; Fri, 2 Jan 2026 03:04:05 +0000\n\
         From:\talice@example.org\nTo:\tbob@example.net, dave\n\n\
         d 107:247:160::1767323065\tbob@example.net\x01failed\x015.1.1\tRCPT To: 550\n";
    check(
        text,
        expect_test::expect![[r#"
            i 4711-2342
            l <20260102030405.A4711@relay.example.org>
            107 Pending None smtp|mx.example.net|bob@example.net|1001 N@160 m@245
            212 Pending None local|dave|dave|1001 m@245
            d@377 reported=false
        "#]],
    );
}

#[test]
fn tags_and_locks_are_parsed() {
    check(
        "@ 7\ni 1\nl x\ns l - a 0\nr~ 31337    c h u1 0\nr+          c h u2 0\n\
         r-          c h u3 0\nr?          c h u4 0\nX 1 c h u5 0\nN NOTIFY=NEVER\n\
         X+ 2  c h u6 0\nX* 2 c h u7 0\nX c h u8 0\ns*c h u9 0\nr*          c h u9 0\n\
         N x\nr\nm\n\nd+0:0:-1::1\t\t\n",
        expect_test::expect![[r#"
            i 1
            l x
            22 Locked Some(31337) c|h|u1|0 m@212
            43 Done None c|h|u2|0 m@212
            64 Failed None c|h|u3|0 m@212
            106 Pending class 1 c h u5 0 N@119
            134 Done class 2 c h u6 0
            d@215 reported=true
            undeliverable: offset 85: recipient has an unknown tag
            undeliverable: offset 163: alternative has no class
        "#]],
    );
}

#[test]
fn columns_without_format_line_are_guessed() {
    check(
        "i 1\nl x\ns l - a 0\nr~ 31337    c h u1 0\nr       c h u2 0\nr c h u3 0\nm\n\n",
        expect_test::expect![[r#"
            i 1
            l x
            18 Locked Some(31337) c|h|u1|0 m@67
            39 Pending None c|h|u2|0 m@67
            56 Pending None c|h|u3|0 m@67
        "#]],
    );
}

#[test]
fn groups_have_own_sender_and_headers() {
    let text = "i 1\nl x\ne first\ns l - a 0\nr           c h u1 0\nm\nA: 1\n\n\
                e second\ns l - b 0\nr           c h u2 0\nm\nB: 2\n\n";
    let file = parse(text.as_bytes().to_vec()).expect("two groups");
    let of = |r: &Recipient| {
        let headers = file.headers_of(r).expect("headers");
        (file.get(file.sender_of(r).expect("a sender").quad.user), file.get(headers.text))
    };
    assert_eq!(of(&file.recipients[0]), (&b"a"[..], &b"A: 1\n"[..]));
    assert_eq!(of(&file.recipients[1]), (&b"b"[..], &b"B: 2\n"[..]));
}

#[test]
fn header_block_ends_at_empty_line_or_file_end() {
    let file = |text: &str| parse(text.as_bytes().to_vec()).expect("a file with headers");
    let start = "i 1\nl x\ns l - a 0\nr           c h u1 0\nm\n";
    let whole = file(&format!("{start}A: 1\n\tmore\n\nd 1:2:3::4\t\t\n"));
    assert_eq!(whole.get(whole.headers[0].text), b"A: 1\n\tmore\n");
    assert_eq!(whole.unterminated_block, None);
    assert_eq!(whole.diagnostics.len(), 1);
    let empty = file(&format!("{start}\nd 1:2:3::4\t\t\n"));
    assert_eq!(empty.get(empty.headers[0].text), b"");
    assert_eq!(empty.diagnostics.len(), 1);
    let cut = file(&format!("{start}A: 1\n\tmore"));
    assert_eq!(cut.get(cut.headers[0].text), b"A: 1\n\tmore");
    assert_eq!(cut.unterminated_block, Some(cut.headers[0].offset));
}

#[test]
fn optional_fields_may_be_missing() {
    // No `@`, `o` and `l` line, unknown fields, no `m` block, and no line end at the end.
    check(
        "i 1\nq what\nzz\n\ns l - a 0\nr           c h u 0",
        expect_test::expect![[r#"
            i 1
            25 Pending None c|h|u|0
        "#]],
    );
}

#[test]
fn etrn_file_needs_only_hosts() {
    check(
        "T ETRN.TEST [127.0.0.1]\n",
        expect_test::expect![[r#"
            T ETRN.TEST
        "#]],
    );
    check(
        "T   \n",
        expect_test::expect![[r#"
        T 
    "#]],
    );
}

#[test]
fn etrn_host_ends_with_its_line() {
    for text in ["T \r", "T \r\n", "T \t \x0c\n"] {
        let file = parse(text.as_bytes().to_vec()).expect("a file of turns");
        let control = text.trim_matches(['T', ' ', '\t', '\n']);
        assert_eq!(file.get(file.etrn_hosts[0]), control.as_bytes(), "{text:?}");
    }
}

#[test]
fn malformed_recipient_leaves_others_deliverable() {
    check(
        "@ 7\ni 1\ns l - a 0\nr           c\nr           c h u 0\nr    \nN NOTIFY=NEVER\nm\n\n",
        expect_test::expect![[r#"
            i 1
            32 Pending None c|h|u|0 m@73
            undeliverable: offset 18: recipient has no host
            undeliverable: offset 52: recipient cut short
        "#]],
    );
}

#[test]
fn damaged_file_error_has_offset() {
    for (text, expected) in [
        ("", "offset 0: the file is empty"),
        ("@ 0x00000008\ni 1\n", "offset 0: unknown format bits in 0x00000008"),
        ("@ seven\ni 1\n", "offset 0: the @ line has no number"),
        ("l x\ns l - a 0\nr           c h u 0\nm\n\n", "offset 0: no i line"),
        ("i 1\nl x\n", "offset 0: no recipient"),
        ("i x1\n", "offset 0: the i line is not a file name that begins with a digit"),
        ("i 1/2\n", "offset 0: the i line is not a file name that begins with a digit"),
        ("i 1\no x\n", "offset 4: the o line is not a number"),
        ("i 1\ns local\n", "offset 4: sender has no host"),
        ("@ 7\ni 1\ns l - a 0\nr           c\nm\n\n", "offset 18: recipient has no host"),
        ("@ 7\ni 1\ns l - a 0\nr           c h\nm\n\n", "offset 18: recipient has no user"),
        ("@ 7\ni 1\ns l - a 0\nr   ", "offset 18: recipient cut short"),
        ("@ 7\ni 1\ns l - a 0\nr      ", "offset 18: recipient cut short"),
    ] {
        assert_eq!(dump(text), format!("error: {expected}\n"), "{text:?}");
    }
}

#[test]
fn disabled_line_is_ignored() {
    check(
        "i 1\ni+2\nl x\ns l - a 0\nr           c h u 0\n",
        expect_test::expect![[r#"
        i 1
        l x
        22 Pending None c|h|u|0
    "#]],
    );
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
        // Whatever the result is, spans lie within the text.
        if let Ok(file) = parse(text) {
            for recipient in &file.recipients {
                file.get(recipient.quad.user);
            }
        }
    }

    #[test]
    fn arbitrary_lines_do_not_panic(text in "([@iolsremNxTXd][ ~+-]?[0-9a-z: ]{0,12}\n){0,8}") {
        if let Ok(file) = parse(text.into_bytes()) {
            for recipient in &file.recipients {
                file.get(recipient.quad.user);
            }
        }
    }
}

#[test]
fn host_longer_than_job_line_is_refused() {
    for (length, is_good) in [(900, true), (901, false)] {
        let host = "h".repeat(length);
        let text = format!("@ 7\ni 1\ns l - a 0\nr           c {host} u 0\nm\n\n");
        assert_eq!(parse(text.into_bytes()).is_ok(), is_good, "{length}");
    }
}
