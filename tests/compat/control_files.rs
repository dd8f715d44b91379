//! Control files of a real router, in all states while agents and the scheduler work on them: their
//! parsed contents, and the check that reading does not change them.

use crate::recording::{StepKind, run};
use crate::support::{TestSpool, at, data, files_under, set_modified, spool_name};
use expect_test::expect;
use std::fmt::Write as _;
use std::process::{self, Stdio};
use std::sync::LazyLock;
use std::time::SystemTime;
use zsched_format::agent_protocol::AgentLine;
use zsched_format::control_file::{PidField, Tag, parse};
use zsched_format::time::Timestamp;
use zsched_spool::load::LoadResult;
use zsched_spool::scan::scan;
use zsched_spool::{Arrival, Group, HashLevel, Offsets, SpoolId, note};

/// A recorded control file.
struct Recorded {
    /// Path among the recordings.
    file: String,
    /// Name in the spool.
    name: String,
    text: Vec<u8>,
}

/// Returns the control files as the router wrote them.
fn written() -> Vec<Recorded> {
    let files = files_under("control-files").into_iter();
    let files = files.filter(|file| file.split(['/', '.']).any(|part| part == "transport"));
    files.map(|file| recorded("control-files", file, ['/', '.'])).collect()
}

/// Returns their later states; the name of a file is that of its folder.
fn later_states() -> Vec<Recorded> {
    let states = files_under("control-files-after").into_iter().map(|file| {
        let (name, _) = file.rsplit_once('/').expect("a folder for each message");
        let name = name.rsplit('/').next().expect("below that of the run").to_string();
        Recorded { name, text: data(&format!("control-files-after/{file}")), file }
    });
    states.collect()
}

fn recorded(folder: &str, file: String, separators: [char; 2]) -> Recorded {
    let name = file.rsplit(separators).next().expect("the number comes last").to_string();
    Recorded { name, text: data(&format!("{folder}/{file}")), file }
}

/// Returns the message file of a name. Those of the third run were not recorded.
fn message_file(name: &str) -> Vec<u8> {
    let is_it = |file: &String| {
        let mut parts = file.split(['/', '.']);
        parts.any(|part| part == "queue") && parts.next_back() == Some(name)
    };
    let file = files_under("control-files").into_iter().find(is_it);
    file.map_or(b"a message\n".to_vec(), |file| data(&format!("control-files/{file}")))
}

/// Returns the offsets of a recorded control file for a destination.
pub fn recorded_groups(number: u64, channel: &str, host: &str) -> Option<Offsets> {
    static ALL: LazyLock<Vec<Recorded>> =
        LazyLock::new(|| written().into_iter().chain(later_states()).collect());
    let name = number.to_string();
    let file = ALL.iter().find(|file| file.name == name)?;
    let control = parse(file.text.clone()).expect("a recorded file is good");
    let arrival = Arrival::new(spool_name(&name), &control, Timestamp::EPOCH, Timestamp::EPOCH);
    let is_it = |group: &Group| {
        (&group.channel[..], &group.host[..]) == (channel.as_bytes(), host.as_bytes())
    };
    arrival.groups.into_iter().find(is_it).map(|group| group.offsets)
}

/// Contents of a file, parsed by columns: all of these have `@ 0x00000007` and no quotes.
#[derive(Debug, Default, PartialEq, Eq)]
struct ByColumns {
    /// Offset, tag, lock, channel, host, user.
    recipients: Vec<(u32, u8, Option<u32>, String, String, String)>,
    /// Offset, and true if it has been reported.
    diagnostics: Vec<(u32, bool)>,
}

fn by_columns(text: &[u8]) -> ByColumns {
    let mut found = ByColumns::default();
    let (mut offset, mut in_headers) = (0, false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line {
            b"m\n" => in_headers = true,
            b"\n" => in_headers = false,
            [b'r', tag, rest @ ..] if !in_headers => {
                let rest = std::str::from_utf8(rest).expect("addresses are text");
                let lock = rest[..6].trim().parse().ok();
                let words: Vec<&str> = rest[10..].trim_end().split(' ').collect();
                let word = |index: usize| words[index].to_string();
                found.recipients.push((offset, *tag, lock, word(0), word(1), word(2)));
            }
            [b'd', tag, ..] if !in_headers => found.diagnostics.push((offset, *tag == b'+')),
            _ => {}
        }
        offset += line.len() as u32;
    }
    found
}

/// Contents of a file, as our parser returns them.
fn by_parser(text: &[u8]) -> ByColumns {
    let file = parse(text.to_vec()).expect("a recorded file is good");
    let text = |span| String::from_utf8(file.get(span).to_vec()).expect("addresses are text");
    let recipients = file.recipients.iter().map(|r| {
        let lock = r.lock.and_then(PidField::pid);
        let quad = &r.quad;
        (r.offset, r.tag.byte(), lock, text(quad.channel), text(quad.host), text(quad.user))
    });
    ByColumns {
        recipients: recipients.collect(),
        diagnostics: file.diagnostics.iter().map(|d| (d.offset, d.reported)).collect(),
    }
}

/// Returns the expected groups of unfinished recipients. Locks are those of dead agents.
fn expected_groups(found: &ByColumns) -> Vec<Group> {
    let is_to_do = |tag: u8| matches!(tag, b' ' | b'~');
    let to_do = found.recipients.iter().filter(|recipient| is_to_do(recipient.1));
    let lower_case = |text: &String| text.to_ascii_lowercase();
    let to_do = to_do.map(|(offset, _, _, channel, host, user)| {
        (lower_case(channel), lower_case(host), lower_case(user), *offset)
    });
    let mut to_do: Vec<(String, String, String, u32)> = to_do.collect();
    to_do.sort();
    let groups = to_do.chunk_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1));
    let groups = groups.map(|of_group| Group {
        channel: of_group[0].0.as_bytes().into(),
        host: of_group[0].1.as_bytes().into(),
        offsets: of_group.iter().rev().map(|(.., offset)| *offset).collect(),
    });
    groups.collect()
}

/// Returns the file with its recipients' locks cleared, and otherwise unchanged.
fn without_locks(text: &[u8], found: &ByColumns) -> Vec<u8> {
    let mut cleared = text.to_vec();
    for (offset, tag, ..) in &found.recipients {
        if *tag == b'~' {
            let start = *offset as usize + 1;
            cleared[start..start + 7].fill(b' ');
        }
    }
    cleared
}

/// Returns the recipients with a final `d` line but an open tag.
///
/// The second value is the tag that they get.
fn decided(text: &[u8], found: &ByColumns) -> Vec<(u32, u8)> {
    let mut decided = Vec::new();
    for (offset, _) in &found.diagnostics {
        let line = text[*offset as usize + 2..].split(|byte| *byte == b'\n').next();
        let line = line.expect("a split gives something");
        let recipient = line.split(|byte| *byte == b':').next().expect("a split gives something");
        let recipient =
            std::str::from_utf8(recipient).expect("a number").parse().expect("a number");
        let tag = match line.split(|byte| *byte == 1).nth(1) {
            None | Some(b"failed") => b'-',
            Some(b"delivered" | b"relayed" | b"expanded") => b'+',
            Some(_) => continue,
        };
        let is_open = |tag: u8| matches!(tag, b' ' | b'~');
        if found.recipients.iter().any(|r| r.0 == recipient && is_open(r.1)) {
            decided.push((recipient, tag));
        }
    }
    decided
}

/// Returns a time before the start of all present processes.
fn long_ago() -> SystemTime {
    at(1_000_000_000, 0)
}

/// Writes a message into the spool and reads it, with the hash folders of its path.
fn read_from_spool(spool: &TestSpool, path: &str, text: &[u8]) -> LoadResult {
    let name = path.rsplit('/').next().expect("a split gives something");
    spool.message(path, text, &message_file(name), long_ago());
    set_modified(&spool.spool.transport().join(path), long_ago());
    spool.read(HashLevel::Flat, spool_name(path))
}

fn arrived(found: LoadResult) -> Arrival {
    match found {
        LoadResult::Arrival(arrival) => *arrival,
        other => panic!("{other:?}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn parser_agrees_with_columns_in_all_states() {
    for file in written().into_iter().chain(later_states()) {
        let mut expected = by_columns(&file.text);
        assert_eq!(by_parser(&file.text), expected, "{}", file.file);
        let mut text_after = without_locks(&file.text, &expected);
        for (offset, tag) in decided(&file.text, &expected) {
            text_after[offset as usize + 1] = tag;
            let recipient = expected.recipients.iter_mut().find(|recipient| recipient.0 == offset);
            recipient.expect("it is one of them").1 = tag;
        }

        let spool = TestSpool::new();
        let arrival = arrived(read_from_spool(&spool, &file.name, &file.text));
        assert_eq!(arrival.groups[..], expected_groups(&expected), "{}", file.file);
        assert_eq!(arrival.recipients as usize, expected.recipients.len(), "{}", file.file);
        let failed = expected.recipients.iter().filter(|recipient| recipient.1 == b'-').count();
        assert_eq!(arrival.failed as usize, failed, "{}", file.file);
        let is_owed = expected.diagnostics.iter().any(|(_, reported)| !reported);
        assert_eq!(arrival.report_due, is_owed, "{}", file.file);
        assert!(
            arrival.first_undeliverable.is_none()
                && arrival.etrn_hosts.is_empty()
                && arrival.locked.is_empty()
        );

        let path = format!("transport/{}", file.name);
        let on_disk = spool.contents(&path).expect("it is still there");
        assert_eq!(text(&on_disk), text(&text_after), "{}", file.file);
        let message = format!("queue/{}", file.name);
        assert_eq!(spool.contents(&message), Some(message_file(&file.name)), "{}", file.file);
        assert_eq!(spool.files(&["queue", "postman"]), [message]);
    }
}

#[test]
fn router_files_give_expected_groups() {
    let mut shown = String::new();
    for file in written() {
        let arrival = arrived(read_from_spool(&TestSpool::new(), &file.name, &file.text));
        writeln!(shown, "{}", file.file).expect("a String takes everything");
        for group in &arrival.groups {
            let offsets: Vec<String> = group.offsets.iter().map(u32::to_string).collect();
            let (channel, host) = (text(&group.channel), text(&group.host));
            writeln!(shown, "  {channel}/{host}: {}", offsets.join(" ")).expect("a String does");
        }
    }
    expect![[r#"
        01-one-local/transport.10084359
          local/games@zm.example.test: 193
        02-multi-channel/transport.10101639
          bitbucket/-: 631
          error/unresolvable: 1104
          hold/timeout:2100000000: 575
          local/games@zm.example.test: 287
          local/news@zm.example.test: 355
          smtp-sim/host1.ta.test: 674
          smtpx/[127.0.0.66]: 472 421
          smtpx/[127.0.0.67]: 523
          uucp/uunode: 167
        03-dsn/transport.10101649
          local/news@zm.example.test: 560
          smtp-sim/host1.ta.test: 169 459 324
        04-200-rcpts/transport.10101236
          smtp-sim/host0.ta.test: 4980 3760 2540 1320 12400 11160 9920 8680 7440 6200
          smtp-sim/host1.ta.test: 5040 3820 2600 1380 169 11221 9981 8741 7501 6261
          smtp-sim/host10.ta.test: 5580 4360 3140 1920 11770 10530 9290 8050 6810 700
          smtp-sim/host11.ta.test: 5642 4422 3202 1982 11833 10593 9353 8113 762 6873
          smtp-sim/host12.ta.test: 5704 4484 3264 2044 11896 10656 9416 8176 824 6936
          smtp-sim/host13.ta.test: 5766 4546 3326 2106 11959 10719 9479 886 8239 6999
          smtp-sim/host14.ta.test: 5828 4608 3388 2168 12022 10782 9542 948 8302 7062
          smtp-sim/host15.ta.test: 5890 4670 3450 2230 12085 10845 1010 9605 8365 7125
          smtp-sim/host16.ta.test: 5952 4732 3512 2292 12148 10908 1072 9668 8428 7188
          smtp-sim/host17.ta.test: 6014 4794 3574 2354 12211 1134 10971 9731 8491 7251
          smtp-sim/host18.ta.test: 6076 4856 3636 2416 12274 1196 11034 9794 8554 7314
          smtp-sim/host19.ta.test: 6138 4918 3698 2478 1258 12337 11097 9857 8617 7377
          smtp-sim/host2.ta.test: 5100 3880 2660 228 1440 11282 10042 8802 7562 6322
          smtp-sim/host3.ta.test: 5160 3940 2720 287 1500 11343 10103 8863 7623 6383
          smtp-sim/host4.ta.test: 5220 4000 346 2780 1560 11404 10164 8924 7684 6444
          smtp-sim/host5.ta.test: 5280 4060 405 2840 1620 11465 10225 8985 7745 6505
          smtp-sim/host6.ta.test: 5340 464 4120 2900 1680 11526 10286 9046 7806 6566
          smtp-sim/host7.ta.test: 5400 523 4180 2960 1740 11587 10347 9107 7867 6627
          smtp-sim/host8.ta.test: 582 5460 4240 3020 1800 11648 10408 9168 7928 6688
          smtp-sim/host9.ta.test: 641 5520 4300 3080 1860 11709 10469 9229 7989 6749
        05-8bit-odd-header/transport.10101206
          smtp-sim/host2.ta.test: 195
          smtpx/[127.0.0.66]: 254
        06-multiline-headers/transport.10101217
          local/games@zm.example.test: 280
          smtp-sim/host3.ta.test: 167
          smtpx/[127.0.0.66]: 229
        07-empty-from-rejected-by-router/transport.10084360
          local/mailer-daemon@zm.example.test: 107
        08-null-sender-channel-error/transport.10101288
          smtp-sim/host4.ta.test: 81
        09-bad-envelope-line-bounce/transport.10084362
          local/games@zm.example.test: 107
        10-deliverby/transport.10101218
          smtp-sim/host5.ta.test: 167
        11-mixed-results/transport.10101234
          smtp-sim/mix.ta.test: 384 329 160 273 215
        12-live-smtp/transport.10101249
          smtpx/[127.0.0.1]: 424 286 160
        14-ta-dies/transport.10101219
          smtp-sim/die.ta.test: 214 158
        15-ta-killed/transport.10101233
          smtp-sim/kill.ta.test: 159
        16-ta-partial-line/transport.10101220
          smtp-sim/partial.ta.test: 162
        17-ta-junk/transport.10101221
          smtp-sim/junk.ta.test: 159
        18-deferall-deferback-retryat/transport.10101222
          smtp-sim/da.ta.test: 161
          smtp-sim/db.ta.test: 220
          smtp-sim/eo.ta.test: 336
          smtp-sim/re.ta.test: 280
        19-overfeed-1/transport.10101223
          smtp-sim/over.ta.test: 160
        19-overfeed-2/transport.10101224
          smtp-sim/over.ta.test: 160
        19-overfeed-3/transport.10101225
          smtp-sim/over.ta.test: 160
        19-overfeed-4/transport.10101227
          smtp-sim/over.ta.test: 160
        19-overfeed-5/transport.10101228
          smtp-sim/over.ta.test: 160
        19-overfeed-6/transport.10101209
          smtp-sim/over.ta.test: 160
        19-overfeed-7/transport.10101229
          smtp-sim/over.ta.test: 160
        20-hold-dsn-delay/transport.10101230
          hold/timeout:2100000000: 160
        21-dual-hash-SCHEDULERDIRHASH2/transport/K/S/10101746
          bitbucket/-: 217
          smtp-sim/hh.ta.test: 160
        21-dual-hash-SCHEDULERDIRHASH2/transport/K/T/10101747
          bitbucket/-: 217
          smtp-sim/hh.ta.test: 160
        21-dual-hash-SCHEDULERDIRHASH2/transport/K/U/10101748
          bitbucket/-: 217
          smtp-sim/hh.ta.test: 160
        21-dual-hash-SCHEDULERDIRHASH2/transport/K/V/10101749
          bitbucket/-: 217
          smtp-sim/hh.ta.test: 160
        21-dual-hash-SCHEDULERDIRHASH2/transport/K/X/10101751
          smtp-sim/hh.ta.test: 214
        21-dual-hash-SCHEDULERDIRHASH2/transport/U/W/10101334
          bitbucket/-: 217
          smtp-sim/hh.ta.test: 160
        21-dual-hash-SCHEDULERDIRHASH2/transport/Y/N/10101429
          bitbucket/-: 217
          smtp-sim/hh.ta.test: 160
    "#]]
    .assert_eq(&shown);
}

#[test]
fn later_states_give_expected_groups() {
    let mut shown = String::new();
    for file in later_states() {
        let control = parse(file.text.clone()).expect("a recorded file is good");
        let with_tag = |tag| control.recipients.iter().filter(|r| r.tag == tag).count();
        let tags = [Tag::Pending, Tag::Locked, Tag::Done, Tag::Failed].map(with_tag);
        let reported = control.diagnostics.iter().filter(|d| d.reported).count();
        let unreported = control.diagnostics.len() - reported;
        let (state, _) = file.file.split_once(".t+").expect("files have the time in their name");
        let owed = if note::has_report_due(&control) { ", owed" } else { "" };
        let [pending, locked, done, failed] = tags;
        writeln!(
            shown,
            "{state}: {pending} to do, {locked} locked, {done} done, {failed} failed; \
             d {unreported} + {reported}{owed}"
        )
        .expect("a String takes everything");
    }
    expect![[r#"
        run1/10084359/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10084360/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10084362/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10084362/02: 0 to do, 0 locked, 0 done, 1 failed; d 1 + 0, owed
        run1/10101206/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101206/02: 1 to do, 0 locked, 1 done, 0 failed; d 0 + 0
        run1/10101208/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101208/02: 0 to do, 2 locked, 0 done, 0 failed; d 0 + 0
        run1/10101209/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101217/01: 3 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101217/02: 1 to do, 0 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101217/03: 1 to do, 0 locked, 1 done, 1 failed; d 0 + 1
        run1/10101218/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/02: 0 to do, 2 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/03: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/04: 0 to do, 2 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/05: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/06: 0 to do, 2 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/07: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101219/08: 0 to do, 2 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/02: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/03: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/04: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/05: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/06: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101220/07: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101221/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101222/01: 4 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101222/02: 3 to do, 0 locked, 0 done, 1 failed; d 1 + 0, owed
        run1/10101222/03: 3 to do, 0 locked, 0 done, 1 failed; d 2 + 0, owed
        run1/10101222/04: 3 to do, 0 locked, 0 done, 1 failed; d 0 + 2
        run1/10101222/05: 3 to do, 0 locked, 0 done, 1 failed; d 1 + 2, owed
        run1/10101223/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101224/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101225/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101227/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101228/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101229/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101230/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101230/02: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 1
        run1/10101233/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/02: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/03: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/04: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/05: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/06: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/07: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run1/10101233/08: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101234/01: 5 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101234/02: 1 to do, 1 locked, 2 done, 1 failed; d 1 + 0, owed
        run1/10101234/03: 1 to do, 0 locked, 3 done, 1 failed; d 1 + 0, owed
        run1/10101236/01: 200 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101236/02: 190 to do, 0 locked, 10 done, 0 failed; d 0 + 0
        run1/10101236/03: 170 to do, 0 locked, 30 done, 0 failed; d 0 + 0
        run1/10101249/01: 3 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101249/02: 0 to do, 3 locked, 0 done, 0 failed; d 0 + 0
        run1/10101249/03: 1 to do, 1 locked, 0 done, 1 failed; d 1 + 0, owed
        run1/10101249/04: 1 to do, 0 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/05: 0 to do, 1 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/06: 1 to do, 0 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/07: 0 to do, 1 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/08: 1 to do, 0 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/09: 0 to do, 1 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/10: 1 to do, 0 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/11: 0 to do, 1 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/12: 1 to do, 0 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101249/13: 1 to do, 0 locked, 1 done, 1 failed; d 0 + 1
        run1/10101249/14: 0 to do, 1 locked, 1 done, 1 failed; d 0 + 1
        run1/10101288/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101639/01: 10 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101639/02: 9 to do, 0 locked, 0 done, 1 failed; d 1 + 0, owed
        run1/10101639/03: 6 to do, 2 locked, 1 done, 1 failed; d 1 + 0, owed
        run1/10101639/04: 4 to do, 2 locked, 2 done, 2 failed; d 2 + 0, owed
        run1/10101639/05: 6 to do, 0 locked, 2 done, 2 failed; d 2 + 0, owed
        run1/10101639/06: 5 to do, 1 locked, 2 done, 2 failed; d 2 + 0, owed
        run1/10101639/07: 4 to do, 2 locked, 2 done, 2 failed; d 2 + 0, owed
        run1/10101639/08: 6 to do, 0 locked, 2 done, 2 failed; d 2 + 0, owed
        run1/10101639/09: 4 to do, 2 locked, 2 done, 2 failed; d 2 + 0, owed
        run1/10101639/10: 4 to do, 2 locked, 2 done, 2 failed; d 0 + 2
        run1/10101639/11: 4 to do, 2 locked, 2 done, 2 failed; d 1 + 2, owed
        run1/10101639/12: 6 to do, 0 locked, 2 done, 2 failed; d 1 + 2, owed
        run1/10101639/13: 5 to do, 0 locked, 3 done, 2 failed; d 1 + 2, owed
        run1/10101639/14: 5 to do, 0 locked, 3 done, 2 failed; d 3 + 2, owed
        run1/10101649/01: 4 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run1/10101649/02: 0 to do, 0 locked, 1 done, 3 failed; d 0 + 4
        run3/10084358/01: 1 to do, 0 locked, 1 done, 0 failed; d 0 + 0
        run3/10084372/01: 0 to do, 0 locked, 1 done, 0 failed; d 0 + 0
        run3/10085057/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10085255/01: 1 to do, 0 locked, 1 done, 0 failed; d 0 + 0
        run3/10085255/02: 0 to do, 1 locked, 1 done, 0 failed; d 0 + 0
        run3/10085264/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10101267/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10101267/02: 1 to do, 0 locked, 1 done, 0 failed; d 1 + 0, owed
        run3/10101382/01: 3 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run3/10101382/02: 2 to do, 0 locked, 2 done, 0 failed; d 0 + 0
        run3/10101382/03: 0 to do, 2 locked, 2 done, 0 failed; d 0 + 0
        run3/10101382/04: 0 to do, 1 locked, 2 done, 1 failed; d 1 + 0, owed
        run3/10101382/05: 0 to do, 0 locked, 3 done, 1 failed; d 0 + 1
        run3/10101391/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10101391/02: 0 to do, 0 locked, 1 done, 0 failed; d 0 + 0
        run3/10101392/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10101392/02: 1 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run3/10101392/03: 1 to do, 0 locked, 1 done, 0 failed; d 0 + 0
        run3/10101393/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10101409/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run3/10101425/01: 0 to do, 1 locked, 0 done, 0 failed; d 0 + 0
        run4/10101334/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run4/10101429/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run4/10101746/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run4/10101747/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run4/10101748/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run4/10101749/01: 2 to do, 0 locked, 0 done, 0 failed; d 0 + 0
        run4/10101751/01: 1 to do, 0 locked, 0 done, 0 failed; d 0 + 0
    "#]]
    .assert_eq(&shown);
}

/// Recorded agents reported about recipients of their jobs; these must be in our groups.
#[test]
fn agent_reports_concern_recipients_of_group() {
    let mut reports = 0;
    for session in ["run1", "run2", "run3", "run4"].into_iter().flat_map(run) {
        for step in &session.steps {
            let StepKind::Jobs(jobs) = &step.what else { continue };
            for job in jobs {
                let host = job.host().or(session.host.as_deref()).expect("a host");
                let number = spool_name(job.path()).number();
                // Some control files were removed before they could be copied.
                let Some(group) = recorded_groups(number, &session.channel, host) else {
                    continue;
                };
                for answer in &job.answers {
                    if let AgentLine::Report(report) = AgentLine::parse(&answer.line) {
                        assert_eq!(report.number, number, "{}", session.name);
                        let is_there = group.contains(&report.offset);
                        assert!(is_there, "{}: {}", session.name, job.line);
                        reports += 1;
                    }
                }
            }
        }
    }
    assert_eq!(reports, 584);
}

#[test]
fn spool_ids_equal_recorded_ones() {
    for (name, seconds, nanoseconds, id) in [
        ("10101639", 1_795_255_449, 852_372_354, "S10101639AbmKUKEJuveqC"),
        ("10101288", 1_795_255_583, 187_430_651, "S10101288AbmKUKGXLK-17"),
        ("10084360", 1_795_255_505, 41_730_085, "S10084360AbmKUKFFCbMAh"),
        ("10084359", 1_795_255_402, 832_339_453, "S10084359AbmKUKDWtjHz9"),
        ("10101236", 1_795_255_461, 935_715_914, "S10101236AbmKUKEVztaRK"),
        ("4711", 1_767_323_045, 0, "S4711AbmABDEF"),
        ("4711", 1_767_323_045, 123_456_789, "S4711AbmABDEFHW8wV"),
        ("258367", 1_047_508_699, 0, "S258367AbTCLWiT"),
    ] {
        let recorded = written().into_iter().find(|file| file.name == name);
        let control = recorded.map_or_else(|| control_file(name, " "), |file| file.text);
        let spool = TestSpool::new();
        spool.message(name, &control, b"a message\n", at(seconds, nanoseconds));
        let arrival = arrived(spool.read(HashLevel::Flat, spool_name(name)));
        let number = arrival.name.number();
        assert_eq!(SpoolId { number, modified: arrival.modified }.to_string(), id);
    }
}

#[test]
fn spool_with_two_levels_is_read_in_place() {
    let recorded = written().into_iter().filter(|file| file.file.starts_with("21-"));
    let recorded: Vec<Recorded> = recorded.collect();
    let path = |file: &Recorded| {
        let (_, path) = file.file.split_once("/transport/").expect("it has folders");
        path.to_string()
    };
    for level in [HashLevel::Flat, HashLevel::Once, HashLevel::Twice] {
        let spool = TestSpool::new();
        for file in &recorded {
            spool.message(&path(file), &file.text, &message_file(&file.name), long_ago());
        }
        let mut found = Vec::new();
        let end = scan(&spool.spool, |names| {
            found.extend(names.iter().map(ToString::to_string));
            true
        });
        assert!(end.errors.is_empty());
        found.sort();
        assert_eq!(found, recorded.iter().map(path).collect::<Vec<_>>());
        for file in &recorded {
            let arrival = arrived(spool.read(level, spool_name(&path(file))));
            assert_eq!(arrival.name.to_string(), path(file));
            assert_eq!(arrival.groups[..], expected_groups(&by_columns(&file.text)));
        }
    }
}

#[test]
fn files_at_top_are_moved_to_their_hash_folder() {
    let spool = TestSpool::new();
    let recorded: Vec<Recorded> =
        written().into_iter().filter(|file| file.file.starts_with("21-")).collect();
    let mut expected = Vec::new();
    for file in &recorded {
        spool.message(&file.name, &file.text, &message_file(&file.name), long_ago());
        let arrival = arrived(spool.read(HashLevel::Twice, spool_name(&file.name)));
        let (_, path) = file.file.split_once("/transport/").expect("it has folders");
        assert_eq!(arrival.name.to_string(), path);
        expected.extend([format!("queue/{path}"), format!("transport/{path}")]);
    }
    expected.sort();
    assert_eq!(spool.files(&["queue", "transport"]), expected);
    // A file in a folder stays there, whatever the level.
    let misplaced = read_from_spool(&spool, "B/I/777", &control_file("777", " "));
    assert_eq!(arrived(misplaced).name.to_string(), "B/I/777");
}

/// Returns a control file with one recipient, which has this tag and lock.
fn control_file(name: &str, tag_and_lock: &str) -> Vec<u8> {
    format!(
        "@ 0x00000007\ni {name}\no 40\nl <1@x.test>\ne a@x.test\ns local - a@x.test 0\n\
         r{tag_and_lock:7}    c a.test u1@x 0\nm\nFrom: a@x.test\nSubject: t\n\n"
    )
    .into_bytes()
}

/// The recorded locks are of a living, a dead and no process.
///
/// The living process is younger than a file of long ago. A lock with our own pid is a
/// predecessor's: this process locks only what it has loaded.
#[test]
fn lock_holds_while_its_process_may_have_set_it() {
    let mut other = process::Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
    let mut child = process::Command::new("true").spawn().expect("true starts");
    child.wait().expect("true ends");
    let lock = |pid: u32| format!("~{pid:6}");
    for (tag_and_lock, modified, holder) in [
        (lock(other.id()), SystemTime::now(), Some(other.id())),
        (lock(other.id()), long_ago(), None),
        (lock(process::id()), SystemTime::now(), None),
        (lock(child.id()), SystemTime::now(), None),
        ("~      ".to_string(), SystemTime::now(), None),
    ] {
        let spool = TestSpool::new();
        let original = control_file("1", &tag_and_lock);
        spool.message("1", &original, b"a message\n", long_ago());
        set_modified(&spool.spool.transport().join("1"), modified);
        let found = spool.read(HashLevel::Flat, spool_name("1"));
        let after = spool.contents("transport/1").expect("it is still there");
        match holder {
            Some(pid) => {
                assert!(matches!(found, LoadResult::Locked(by) if by == pid), "{found:?}");
                assert_eq!(text(&after), text(&original));
            }
            None => {
                assert_eq!(arrived(found).pending(), 1, "{tag_and_lock}");
                assert_eq!(text(&after), text(&control_file("1", " ")));
            }
        }
    }
    other.kill().expect("cat is killed");
    other.wait().expect("cat ends");
}
