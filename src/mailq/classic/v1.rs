//! Parser of MAILQ version 1 answers (their form: the crate `zsched-mailq-server`, module `v1`).

use super::queue::{QueuedThread, Vertex};
use crate::connect::lines::{LineSource, Lines};
use crate::failure::Failure;
use crate::screen::quote;
use crate::warnings::Warnings;
use memchr::memmem;
use nom::bytes::complete::{is_not, tag, take_till, take_while, take_while1};
use nom::character::complete::{u32, u64};
use nom::combinator::{all_consuming, opt, rest};
use nom::multi::{many1, separated_list0};
use nom::sequence::{preceded, terminated};
use nom::{IResult, Parser};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Stands for a channel or host that the scheduler has not named.
const UNNAMED: &[u8] = b"?";

/// Kind of name that a list of vertices belongs to.
#[derive(Clone, Copy)]
enum NameKind {
    Channel,
    Host,
}

/// The vertices of an answer, and the lists of them by channel and by host.
#[derive(Default)]
struct Dump {
    vertices: Vec<ListedVertex>,
    /// Index of each vertex, by its key.
    keys: HashMap<u64, usize>,
    /// Names of each kind, with their vertices in the scheduler's order.
    names: [Vec<(Vec<u8>, Vec<usize>)>; 2],
}

/// A vertex, and the index of its name of each kind.
struct ListedVertex {
    vertex: Vertex,
    names: [Option<usize>; 2],
}

impl Dump {
    /// Adds a name with its vertices.
    ///
    /// Returns the number of keys that are unknown or linked already, and the first of them.
    fn link(&mut self, kind: NameKind, name: &[u8], keys: &[u64]) -> Option<(u64, u64)> {
        let names = &mut self.names[kind as usize];
        let (mut members, mut wrong) = (Vec::new(), None);
        for key in keys {
            let index = self.keys.get(key).copied();
            match index.map(|index| (index, &mut self.vertices[index].names[kind as usize])) {
                Some((index, link @ None)) => {
                    *link = Some(names.len());
                    members.push(index);
                }
                _ => wrong.get_or_insert((0, *key)).0 += 1,
            }
        }
        if !members.is_empty() {
            names.push((name.to_vec(), members));
        }
        wrong
    }

    /// The vertices by channel and host.
    ///
    /// Channels are in the order of the scheduler. Their vertices are in the reverse order, as
    /// ZMailer lists them.
    fn into_threads(mut self) -> Vec<QueuedThread> {
        let [mut channels, hosts] = self.names;
        let is_unlinked = |index: &usize| self.vertices[*index].names[0].is_none();
        let unlinked = (0..self.vertices.len()).filter(is_unlinked).collect();
        channels.push((UNNAMED.to_vec(), unlinked));
        let mut threads: Vec<QueuedThread> = Vec::new();
        for (channel, members) in channels {
            let mut places = HashMap::new();
            for index in members.into_iter().rev() {
                let ListedVertex { vertex, names: [_, host] } = &mut self.vertices[index];
                let place = *places.entry(*host).or_insert_with(|| {
                    let host = host.map_or(UNNAMED, |host| &hosts[host].0).to_vec();
                    let (channel, vertices) = (channel.clone(), Vec::new());
                    threads.push(QueuedThread { channel, host, vertices, age: None });
                    threads.len() - 1
                });
                threads[place].vertices.push(std::mem::take(vertex));
            }
        }
        threads
    }
}

/// Reads all lines between the greeting and the report.
pub(crate) fn read(
    lines: &mut Lines,
    warnings: &mut Warnings,
) -> Result<Vec<QueuedThread>, Failure> {
    let mut dump = Dump::default();
    match lines.next()? {
        Some(line) if line.trim_ascii_end() == b"Vertices:" => {}
        Some(line) => {
            let shown = quote(line);
            return Failure::protocol(format!("\"Vertices:\" is missing before {shown}"));
        }
        None => return Err(incomplete(0)),
    }
    lines.allow_lists(true);
    // Kind of the lists of names that the next line belongs to; the vertices are before them.
    let mut section = None;
    let max = lines.limits.entries;
    let mut count = 0;
    while let Some(line) = lines.next()? {
        if dump.vertices.len() > max {
            return Failure::protocol(format!("there are more than {max} messages"));
        }
        match line.trim_ascii_end() {
            b"End:" => {
                lines.allow_lists(false);
                let is_unlinked = |vertex: &&ListedVertex| vertex.names.contains(&None);
                let count = dump.vertices.iter().filter(is_unlinked).count();
                if count > 0 {
                    warnings.add(|| format!("{count} entries have no channel or host"));
                }
                return Ok(dump.into_threads());
            }
            b"Channels:" => section = Some(NameKind::Channel),
            b"Hosts:" => section = Some(NameKind::Host),
            _ => {
                let taken = match section {
                    None => take_vertex(&mut dump, line),
                    Some(kind) => take_name_list(&mut dump, kind, line),
                };
                if let Err(problem) = taken {
                    let line = line.to_vec();
                    let number = lines.number;
                    warnings.add(|| format!("line {number}: {problem} in {}", quote(&line)));
                }
                count += 1;
            }
        }
    }
    Err(incomplete(count))
}

/// Skips all lines before the report.
pub(crate) fn skip_to_report(lines: &mut Lines) -> Result<(), Failure> {
    lines.allow_lists(true);
    let mut count = 0;
    while let Some(line) = lines.next()? {
        if line.trim_ascii_end() == b"End:" {
            lines.allow_lists(false);
            return Ok(());
        }
        count += 1;
    }
    Err(incomplete(count))
}

fn incomplete(count: u64) -> Failure {
    Failure::Protocol(format!(
        "the answer is incomplete: it ends before \"End:\", after {count} lines; \
         nothing of it is shown"
    ))
}

fn take_vertex(dump: &mut Dump, line: &[u8]) -> Result<(), String> {
    let (_, (key, vertex)) = vertex(line).map_err(|_| "not a message entry".to_string())?;
    let (stated, found) = (vertex.recipients, vertex.offsets.len() as u64);
    if stated == 0 {
        return Err("no recipient".to_string());
    }
    match dump.keys.entry(key) {
        Entry::Occupied(_) => return Err(format!("duplicate key {key}")),
        Entry::Vacant(entry) => entry.insert(dump.vertices.len()),
    };
    dump.vertices.push(ListedVertex { vertex, names: [None; 2] });
    match stated == found {
        true => Ok(()),
        false => Err(format!("{found} offsets for {stated} recipients")),
    }
}

fn take_name_list(dump: &mut Dump, kind: NameKind, line: &[u8]) -> Result<(), String> {
    // A name may contain colons.
    let end = memmem::find(line, b":\t>").ok_or("not a list of keys")?;
    let (name, keys) = (&line[..end], &line[end + 2..]);
    let (rest, keys) = keys_of_name_list(keys).map_err(|_| "not a list of keys".to_string())?;
    if let Some((count, first)) = dump.link(kind, name, &keys) {
        return Err(format!("{count} keys that are unknown or used already, such as {first},"));
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err("extra text after the keys".to_string()),
    }
}

/// `key:<TAB>file<TAB>count; offset,offset<TAB>#text`.
fn vertex(line: &[u8]) -> IResult<&[u8], (u64, Vertex)> {
    let file = terminated(is_not(" \t"), take_while1(is_blank));
    let head = (terminated(u64, (tag(":"), take_while(is_blank))), file, u64);
    let offsets = preceded((tag(";"), take_while(is_blank)), separated_list0(tag(","), u32));
    let text = preceded((take_till(|byte| byte == b'#'), tag("#")), rest);
    let end = take_while(is_blank);
    let (rest, ((key, file, recipients), offsets, text, _)) =
        all_consuming((head, offsets, opt(text), end)).parse(line)?;
    let (file, text) = (file.to_vec(), text.map(<[u8]>::to_vec));
    Ok((rest, (key, Vertex { file, recipients, offsets, text, state: None })))
}

/// `>key>key>key`.
fn keys_of_name_list(input: &[u8]) -> IResult<&[u8], Vec<u64>> {
    many1(preceded(tag(">"), u64)).parse(input)
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::lines::{LIMITS, Limits};
    use proptest::prelude::*;

    /// Queue of an answer without its greeting, and number of warnings.
    fn read(answer: &[u8]) -> Result<(Vec<String>, u64), i32> {
        let mut warnings = Warnings::default();
        let queue = super::read(&mut Lines::recorded(answer, LIMITS), &mut warnings)
            .map_err(|failure| failure.status())?;
        let mut shown = Vec::new();
        for thread in queue {
            let place = [thread.channel.as_slice(), b"/", &thread.host].concat();
            for vertex in thread.vertices {
                let text = vertex.text.as_deref().map(String::from_utf8_lossy);
                shown.push(format!(
                    "{} {} {} {:?} {}",
                    String::from_utf8_lossy(&place),
                    String::from_utf8_lossy(&vertex.file),
                    vertex.recipients,
                    vertex.offsets,
                    text.as_deref().unwrap_or("-"),
                ));
            }
        }
        Ok((shown, warnings.count()))
    }

    fn read_vertices(vertices: &str) -> (Vec<String>, u64) {
        let answer = format!("Vertices:\n{vertices}\nChannels:\nc:\t>1\nHosts:\nh:\t>1\nEnd:\n");
        read(answer.as_bytes()).expect("it is complete")
    }

    #[test]
    fn read_of_good_answer_gives_no_warning() {
        for (answer, expected) in [
            ("Vertices:\nEnd:\n", &[][..]),
            (
                "Vertices:\n1:\tA/D/311424-2\t1; 116\t#(running now)\n2:\t7\t2; 331,151\t#b (x)\n\
                 Channels:\nsmtp:\t>1>2\nHosts:\nfunet.fi:\t>1\ntimeout:2100000000:\t>2\nEnd:\n",
                &[
                    "smtp/timeout:2100000000 7 2 [331, 151] b (x)",
                    "smtp/funet.fi A/D/311424-2 1 [116] (running now)",
                ],
            ),
        ] {
            let (shown, warnings) = read(answer.as_bytes()).expect("it is complete");
            assert_eq!(shown, expected);
            assert_eq!(warnings, 0, "{answer}");
        }
    }

    #[test]
    fn vertex_lines_are_parsed() {
        for (line, expected, warnings) in [
            ("1:\t7\t1; 116\t#a#b\r", "c/h 7 1 [116] a#b\r", 0),
            ("1: 7 1;116", "c/h 7 1 [116] -", 0),
            ("1:\t7\t1; 116\t#", "c/h 7 1 [116] ", 0),
            ("1:\t7\t1; 1,2,3\t#x", "c/h 7 1 [1, 2, 3] x", 1),
            ("1:\t7\t3; 1\t#x", "c/h 7 3 [1] x", 1),
            ("1:\t7\t1; \t#x", "c/h 7 1 [] x", 1),
            ("1:\t7\t1; 1\t#x\n1:\t8\t1; 1\t#y", "c/h 7 1 [1] x", 1),
            ("1:\t7\t18446744073709551615; 1\t#x", "c/h 7 18446744073709551615 [1] x", 1),
        ] {
            assert_eq!(read_vertices(line), (vec![expected.to_string()], warnings), "{line:?}");
        }
        for line in [
            "",
            "x",
            "1",
            "1:",
            "1:\t7",
            "1:\t7\t; 1",
            "1:\t7\t0; \t#x",
            "1:\t7\t-1; 1\t#x",
            "1:\t7\t1 1\t#x",
            "1:\t7\t1; 4294967296\t",
            "18446744073709551616:\t7\t1; 1\t#x",
            "-1:\t7\t1; 1\t#x",
        ] {
            // The line itself, and the two lines that refer to key 1.
            assert_eq!(read_vertices(line), (Vec::new(), 3), "{line:?}");
        }
    }

    #[test]
    fn channel_and_host_lines_are_parsed() {
        for (lists, expected, warnings) in [
            ("Channels:\nc:\t>1\nHosts:\nh:\t>1", "c/h", 0),
            ("Hosts:\nh:\t>1\nChannels:\nc:\t>1", "c/h", 0),
            ("Channels:\nHosts::\t>1\nHosts:\n:\t>1", "Hosts:/", 0),
            ("Channels:\nc:\t>1\nHosts:\nh:\t>1>999311424", "c/h", 1),
            ("Channels:\nc:\t>1>1\nHosts:\nh:\t>1\ni:\t>1", "c/h", 2),
            ("Channels:\nc:\t>1\nHosts:\nh: >1", "c/?", 2),
            ("Channels:\nc:\t>\nHosts:\nh:\t>1 x", "?/h", 3),
            ("Channels:\nc:\t>1", "c/?", 1),
            ("Hosts:\nh:\t>1", "?/h", 1),
            ("Channels:", "?/?", 1),
            ("Channels:\nc:\t>1>1>99\nd:\t>1\nHosts:\nh:\t>1", "c/h", 2),
        ] {
            let answer = format!("Vertices:\n1:\t7\t1; 1\n{lists}\nEnd:\n");
            let expected = (vec![format!("{expected} 7 1 [1] -")], warnings);
            assert_eq!(read(answer.as_bytes()), Ok(expected), "{lists:?}");
        }
    }

    #[test]
    fn read_of_truncated_answer_fails() {
        let whole = b"Vertices:\n1:\t7\t1; 1\t#x\nChannels:\nc:\t>1\nHosts:\nh:\t>1\nEnd:";
        assert!(read(whole).is_ok());
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), Err(76), "{end}");
            assert!(skip_to_report(&mut Lines::recorded(&whole[..end], LIMITS)).is_err());
        }
        assert_eq!(read(b"Channels:\nEnd:\n"), Err(76));
    }

    #[test]
    fn read_with_too_many_messages_fails() {
        let limits = Limits { entries: 3, ..LIMITS };
        for (count, is_good) in [(3, true), (4, false)] {
            let vertices: String = (1..=count).map(|key| format!("{key}: 7 1; 1\n")).collect();
            let answer = format!("Vertices:\n{vertices}End:\n");
            let mut lines = Lines::recorded(answer.as_bytes(), limits);
            assert_eq!(super::read(&mut lines, &mut Warnings::default()).is_ok(), is_good);
        }
    }

    proptest! {
        #[test]
        fn read_of_any_bytes_succeeds(text: Vec<u8>) {
            let answer = [b"Vertices:\n", text.as_slice(), b"\nEnd:\n"].concat();
            prop_assert!(read(&answer).is_ok());
        }

        #[test]
        fn read_of_plausible_lines_succeeds(
            lines in prop::collection::vec("([0-9]{1,2}|c|End|Hosts|Channels):\t?(>?[0-9]{1,3}[\t;, >#]){0,6}", 0..20)
        ) {
            let answer = format!("Vertices:\n{}\nEnd:\n", lines.join("\n"));
            let read = read(answer.as_bytes());
            prop_assert!(read.is_ok());
        }

        #[test]
        fn read_finds_every_message(count in 0u64..50, seed: u64) {
            let mut answer = String::from("Vertices:\n");
            for key in 1..=count {
                answer.push_str(&format!("{key}:\t{key}\t1; 1\t#\n"));
            }
            for (title, step) in [("Channels:\n", 7), ("Hosts:\n", 13)] {
                answer.push_str(title);
                let place = |key: u64| key.wrapping_mul(seed).wrapping_add(key) % step;
                for name in 0..step {
                    let keys = (1..=count).filter(|key| place(*key) == name);
                    let keys: String = keys.map(|key| format!(">{key}")).collect();
                    if !keys.is_empty() {
                        answer.push_str(&format!("{name}:\t{keys}\n"));
                    }
                }
            }
            answer.push_str("End:\n");
            let (shown, warnings) = read(answer.as_bytes()).expect("a good answer");
            prop_assert_eq!((shown.len() as u64, warnings), (count, 0));
        }
    }
}
