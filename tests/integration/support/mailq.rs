//! A strict parser of the queue that MAILQ version 1 shows.

use super::wait::DEADLINE;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;

#[derive(Clone, Debug, Default)]
pub struct Dump {
    pub vertices: Vec<Vertex>,
    /// Keys of vertices by channel; `None` where the section is absent.
    pub channels: Option<BTreeMap<String, Vec<usize>>>,
    pub hosts: Option<BTreeMap<String, Vec<usize>>>,
    /// The queue report, line by line.
    pub report: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Vertex {
    pub key: usize,
    pub file: String,
    pub offsets: Vec<u32>,
    /// The text behind the `#`.
    pub text: String,
}

impl Dump {
    /// Reads a dump from the scheduler at a socket.
    #[track_caller]
    pub fn fetch(socket: &Path) -> Dump {
        Dump::from(UnixStream::connect(socket).expect("MAILQ is served"))
    }

    /// Reads a dump from a connection until its end.
    #[track_caller]
    pub fn from(mut stream: UnixStream) -> Dump {
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("the dump ends");
        Dump::parse(&String::from_utf8_lossy(&text))
    }

    /// Parses a dump. Panics if it breaks the grammar of the protocol.
    #[track_caller]
    pub fn parse(text: &str) -> Dump {
        assert!(text.ends_with('\n'), "the dump is cut short: {text:?}");
        let mut lines = text.split_terminator('\n').peekable();
        assert_eq!(lines.next(), Some("version zmailer 1.0"));
        assert_eq!(lines.next(), Some("Vertices:"));
        let mut dump = Dump::default();
        while lines
            .peek()
            .is_some_and(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        {
            dump.vertices.push(Vertex::parse(lines.next().expect("peeked")));
        }
        let mut section = lines.next();
        let mut web = |title: &str| {
            if section != Some(title) {
                return None;
            }
            let mut names = BTreeMap::new();
            section = lines.next();
            while let Some((name, keys)) = section.and_then(|line| line.split_once(":\t>")) {
                let keys = keys.split('>').map(|key| key.parse().expect("a key")).collect();
                assert!(names.insert(name.to_string(), keys).is_none(), "{name} twice");
                section = lines.next();
            }
            Some(names)
        };
        dump.channels = web("Channels:");
        dump.hosts = web("Hosts:");
        assert_eq!(section, Some("End:"), "in {text}");
        dump.report = lines.map(str::to_string).collect();
        dump.check();
        dump
    }

    /// Checks the invariants of a dump with vertices.
    fn check(&self) {
        let keys: Vec<usize> = self.vertices.iter().map(|vertex| vertex.key).collect();
        assert_eq!(keys, (1..=self.vertices.len()).collect::<Vec<usize>>());
        for webs in [&self.channels, &self.hosts] {
            let mut in_webs: Vec<usize> =
                webs.iter().flat_map(BTreeMap::values).flatten().copied().collect();
            in_webs.sort();
            assert_eq!(in_webs, keys, "every vertex is in one line of each web");
        }
        let report = self.report.join("\n");
        assert!(self.report.len() >= 2 && report.contains("Kids: "), "no queue report: {report}");
    }

    /// Returns the number of unfinished recipients.
    pub fn recipients(&self) -> usize {
        self.vertices.iter().map(|vertex| vertex.offsets.len()).sum()
    }

    /// Returns the line of a thread in the report.
    pub fn thread(&self, destination: &str) -> Option<&str> {
        let start = format!("    {destination}/");
        self.report.iter().find(|line| line.starts_with(&start)).map(String::as_str)
    }

    /// Returns a number behind a label in the last two lines of the report: `Kids`, `Idle`, `Msgs`.
    pub fn total(&self, label: &str) -> usize {
        let line = self.report.iter().find(|line| line.starts_with("Kids: ")).expect("totals");
        let (_, rest) = line.split_once(&format!("{label}:")).expect("the label");
        rest.split_ascii_whitespace().next().expect("a number").parse().expect("a number")
    }
}

impl Vertex {
    #[track_caller]
    fn parse(line: &str) -> Vertex {
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        let [key, file, recipients, text] = fields[..] else { panic!("no vertex: {line:?}") };
        let (count, offsets) = recipients.split_once("; ").expect("count and offsets");
        let offsets: Vec<u32> = offsets.split(',').map(|o| o.parse().expect("an offset")).collect();
        assert_eq!(count.parse(), Ok(offsets.len()), "in {line:?}");
        let text = text.strip_prefix('#').expect("a text");
        assert!(text.ends_with(')'), "in {line:?}");
        Vertex {
            key: key.strip_suffix(':').expect("a key").parse().expect("a number"),
            file: file.to_string(),
            offsets,
            text: text.to_string(),
        }
    }
}
