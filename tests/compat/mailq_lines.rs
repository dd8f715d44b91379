//! The lines of a MAILQ version 1 dump, blank for blank.
//!
//! Clients find values by column and label, so our dumps have to pass the same checks as the
//! recorded ones.
//!
//! ```text
//! version zmailer 1.0
//! Vertices:
//! 3:<TAB>100<TAB>1; 71<TAB>#later please (retry in 8s, expires in 59m55s, tries=1)
//! Channels:
//! c:<TAB>>4>5
//! Hosts:
//! g3.test:<TAB>>8
//! End:
//! c/*/0
//!     c/h0.test/0<TAB><TAB><TAB>N=2   R=2   A=1  W=7s QA=5s
//! <TAB>Threads:    8 Msgs:     9 Procs:   2 Idle:   0 Plim:   2 Flim:   0 Tlim: 1
//! Kids: 2  Idle:  0  Msgs:   5  Thrds:   8  Rcpnts:    9  Uptime: 5s
//! Msgs in 5 out 0 stored 5 Rcpnts in 10 out 1 stored 9
//! ```

use crate::support::data;
use std::collections::BTreeSet;

/// The error, and the line that has it.
type LineError = String;

/// Checks a complete dump.
pub fn check_dump(dump: &str) -> Result<(), LineError> {
    let mut lines = Lines::of(dump)?;
    lines.exactly("version zmailer 1.0")?;
    lines.exactly("Vertices:")?;
    let mut vertices = 0;
    let mut last_number = 0;
    while lines.peek().is_some_and(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
        let number = lines.take(|line| vertex(line, vertices + 1))?;
        if number < last_number {
            return Err(format!("{number} comes behind {last_number}"));
        }
        (vertices, last_number) = (vertices + 1, number);
    }
    if vertices > 0 {
        lines.exactly("Channels:")?;
        webs(&mut lines, vertices)?;
        lines.exactly("Hosts:")?;
        webs(&mut lines, vertices)?;
    }
    lines.exactly("End:")?;
    report(&mut lines)
}

/// Checks a queue report, which is also the end of a dump.
pub fn check_report(text: &str) -> Result<(), LineError> {
    report(&mut Lines::of(text)?)
}

/// The lines that are not parsed yet.
struct Lines<'t> {
    left: Vec<&'t str>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Result<Lines<'t>, LineError> {
        let text = text.strip_suffix('\n').ok_or("the last line has no end")?;
        Ok(Lines { left: text.split('\n').rev().collect() })
    }

    fn peek(&self) -> Option<&'t str> {
        self.left.last().copied()
    }

    /// Parses a whole line.
    fn take<T>(
        &mut self,
        read: impl FnOnce(&mut Line<'t>) -> Result<T, LineError>,
    ) -> Result<T, LineError> {
        let text = self.left.pop().ok_or("a line is missing")?;
        let mut line = Line { left: text };
        let value = read(&mut line).map_err(|wrong| format!("{text:?}: {wrong}"))?;
        match line.left {
            "" => Ok(value),
            left => Err(format!("{text:?}: {left:?} is too much")),
        }
    }

    fn exactly(&mut self, text: &str) -> Result<(), LineError> {
        self.take(|line| line.skip(text))
    }
}

/// The part of a line that is not parsed yet.
struct Line<'t> {
    left: &'t str,
}

impl<'t> Line<'t> {
    fn skip(&mut self, text: &str) -> Result<(), LineError> {
        match self.left.strip_prefix(text) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!("{text:?} is expected at {:?}", self.left)),
        }
    }

    fn skips(&mut self, text: &str) -> bool {
        self.skip(text).is_ok()
    }

    /// Parses a number as `%d` prints it.
    fn number(&mut self) -> Result<i64, LineError> {
        let negative = usize::from(self.left.starts_with('-'));
        let digits = self.left[negative..].bytes().take_while(u8::is_ascii_digit).count();
        let (text, left) = self.left.split_at(negative + digits);
        let number = text.parse().map_err(|_| format!("no number at {:?}", self.left))?;
        // This refuses `007` and `-0`.
        if text != format!("{number}") {
            return Err(format!("{text:?} is no number"));
        }
        self.left = left;
        Ok(number)
    }

    /// Parses a number as `%4d` prints it.
    fn right(&mut self, width: usize) -> Result<i64, LineError> {
        let before = self.left;
        self.left = self.left.trim_start_matches(' ');
        let blanks = before.len() - self.left.len();
        let number = self.number()?;
        let length = before.len() - self.left.len();
        if blanks > 0 && length != width || length < width {
            return Err(format!("{number} is not right-aligned in {width} columns"));
        }
        Ok(number)
    }

    /// Parses a number as `%-4d` prints it.
    fn left(&mut self, width: usize) -> Result<i64, LineError> {
        let before = self.left;
        let number = self.number()?;
        let length = before.len() - self.left.len();
        self.skip(&" ".repeat(width.saturating_sub(length)))?;
        Ok(number)
    }

    /// Parses a duration in the short form.
    fn duration(&mut self) -> Result<(), LineError> {
        if self.skips("0s") {
            return Ok(());
        }
        self.skips("-");
        let (mut parts, mut coarse) = (0, 0);
        for (unit, limit) in [("d", i64::MAX), ("h", 24), ("m", 60), ("s", 60)] {
            let before = self.left;
            match self.number() {
                Ok(amount) if coarse < 2 && self.skips(unit) => {
                    if !(1..limit).contains(&amount) {
                        return Err(format!("{amount}{unit} in a length of time"));
                    }
                    parts += 1;
                    coarse += usize::from(matches!(unit, "d" | "h"));
                }
                _ => self.left = before,
            }
        }
        if parts == 0 { Err(format!("no length of time at {:?}", self.left)) } else { Ok(()) }
    }

    fn until(&mut self, end: char) -> Result<&'t str, LineError> {
        let (text, left) = self.left.split_once(end).ok_or(format!("no {end:?}"))?;
        self.left = left;
        Ok(text)
    }

    /// Parses a list in braces, separated by commas. Returns its length.
    fn list(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<(), LineError>,
    ) -> Result<usize, LineError> {
        self.skip("{")?;
        let mut count = 1;
        one(self)?;
        while self.skips(",") {
            one(self)?;
            count += 1;
        }
        self.skip("}")?;
        Ok(count)
    }
}

/// Parses a vertex. Returns the number of its message.
fn vertex(line: &mut Line<'_>, key: usize) -> Result<i64, LineError> {
    line.skip(&format!("{key}:\t"))?;
    let file = line.until('\t')?;
    let base = file.rsplit('/').next().unwrap_or_default();
    let number = Line { left: base }.number()?;
    let folders = file.split('/').rev().skip(1);
    if !folders.clone().all(|folder| matches!(folder.as_bytes(), [b'A'..=b'Z'])) {
        return Err(format!("{file:?} is no path of a message"));
    }
    let count = line.number()?;
    line.skip("; ")?;
    let mut offsets = 1;
    line.number()?;
    while line.skips(",") {
        line.number()?;
        offsets += 1;
    }
    if count != offsets {
        return Err(format!("{offsets} offsets, not {count}"));
    }
    line.skip("\t#")?;
    // The text is arbitrary, and ends with a blank.
    let (text, notes) = line.left.rsplit_once('(').ok_or("no notes")?;
    if !text.is_empty() && (!text.ends_with(' ') || text == " ") {
        return Err(format!("{text:?} before the notes"));
    }
    line.left = notes;
    standing(line)?;
    if line.skips(", expires in ") {
        line.duration()?;
        line.skip(", tries=")?;
        line.number()?;
    }
    line.skip(")")?;
    Ok(number)
}

fn standing(line: &mut Line<'_>) -> Result<(), LineError> {
    if line.skips("retry in ") {
        return line.duration();
    }
    if line.skips("running now, pid=") {
        line.number()?;
        line.skips(" NextFeed");
        return Ok(());
    }
    let others = [
        "waiting for slot",
        "waiting for channel slot",
        "waiting for thread slot",
        "activation pending, thread inactive",
    ];
    let known = others.iter().any(|text| line.skips(text));
    if known { Ok(()) } else { Err(format!("{:?} is no standing", line.left)) }
}

/// Parses the lines of channels or of hosts; each vertex is in one of them.
fn webs(lines: &mut Lines<'_>, vertices: usize) -> Result<(), LineError> {
    let mut seen = BTreeSet::new();
    while lines.peek().is_some_and(|line| line.contains(":\t")) {
        let keys = lines.take(|line| {
            let (name, keys) = line.left.rsplit_once(":\t").ok_or("no name")?;
            line.left = keys;
            let mut keys = Vec::new();
            while !line.left.is_empty() {
                line.skip(">")?;
                keys.push(line.number()?);
            }
            if name.is_empty() || keys.is_empty() {
                Err("no name or no key".into())
            } else {
                Ok(keys)
            }
        })?;
        for key in keys {
            if !seen.insert(key) {
                return Err(format!("vertex {key} is there twice"));
            }
        }
    }
    let all: BTreeSet<i64> = (1..=vertices as i64).collect();
    if seen == all { Ok(()) } else { Err(format!("vertices {seen:?}, not 1 to {vertices}")) }
}

/// Sums over threads.
#[derive(Default)]
struct Sums {
    threads: i64,
    vertices: i64,
    agents: i64,
    idle: i64,
}

fn report(lines: &mut Lines<'_>) -> Result<(), LineError> {
    let mut all = Sums::default();
    while lines.peek().is_some_and(|line| !line.starts_with("Kids: ")) {
        let group = group(lines)?;
        all.threads += group.threads;
        all.vertices += group.vertices;
        all.agents += group.agents;
        all.idle += group.idle;
    }
    lines.take(|line| totals(line, &all))?;
    lines.take(counters)?;
    if lines.left.is_empty() { Ok(()) } else { Err("more behind the totals".into()) }
}

fn group(lines: &mut Lines<'_>) -> Result<Sums, LineError> {
    let with_host = lines.take(|line| {
        let (pattern, with_host) = line.left.rsplit_once('/').ok_or("no slash")?;
        line.left = "";
        let is_flag = matches!(with_host, "0" | "2");
        let is_head = is_flag && pattern.contains('/') && !pattern.starts_with(['\t', ' ']);
        if is_head { Ok(with_host) } else { Err("no head of a group".into()) }
    })?;
    let mut sums = Sums::default();
    while lines.peek().is_some_and(|line| line.starts_with("    ")) {
        let (vertices, agents) = lines.take(|line| thread(line, with_host))?;
        sums.threads += 1;
        sums.vertices += vertices;
        sums.agents += agents;
    }
    lines.take(|line| {
        line.skip("\tThreads: ")?;
        let threads = line.right(4)?;
        line.skip(" Msgs: ")?;
        let vertices = line.right(5)?;
        line.skip(" Procs: ")?;
        let agents = line.right(3)?;
        line.skip(" Idle: ")?;
        sums.idle = line.right(3)?;
        line.skip(" Plim: ")?;
        line.right(3)?;
        line.skip(" Flim: ")?;
        line.right(3)?;
        line.skip(" Tlim: ")?;
        line.number()?;
        let found = (sums.threads, sums.vertices, sums.agents + sums.idle);
        if found != (threads, vertices, agents) {
            return Err(format!("threads, messages and agents are in fact {found:?}"));
        }
        Ok(())
    })?;
    sums.agents += sums.idle;
    Ok(sums)
}

/// Parses a thread. Returns its numbers of vertices and agents.
fn thread(line: &mut Line<'_>, with_host: &str) -> Result<(i64, i64), LineError> {
    let whole = line.left;
    let detail = whole.rfind("N=").ok_or("no N=")?;
    let name = whole[..detail].trim_end_matches(['\t', ' ']);
    let flag = name.rsplit('/').next().unwrap_or_default();
    if name.matches('/').count() < 2 || flag != with_host {
        return Err(format!("{name:?} is no thread of this group"));
    }
    let pad = match name.len() {
        width @ 0..32 => "\t".repeat(4 - width / 8),
        _ => " ".to_string(),
    };
    line.skip(name)?;
    line.skip(&pad)?;
    line.skip("N=")?;
    let vertices = line.left(3)?;
    line.skip(" R=")?;
    line.left(3)?;
    line.skip(" A=")?;
    line.left(2)?;
    let mut agents = 0;
    if line.skips(" P=") {
        agents = line.list(|line| line.number().map(drop))?;
        line.skip(" HA=")?;
        let hungry = line.list(|line| line.number().map(drop))?;
        line.skip("s FA=")?;
        let fed = line.list(|line| match line.skips("never") {
            true => Ok(()),
            false => line.number().map(drop),
        })?;
        line.skip("s OF=")?;
        let owed = line.list(|line| line.number().map(drop))?;
        line.skip(" S=")?;
        let states = line.list(|line| {
            let known = ["LARVA", "STUFF", "FINISH", "IDLE", "ERROR"];
            if known.iter().any(|state| line.skips(state)) { Ok(()) } else { Err("state".into()) }
        })?;
        line.skip(" UF=")?;
        line.number()?;
        if [hungry, fed, owed, states] != [agents; 4] {
            return Err("lists of different lengths".into());
        }
    } else if line.skips(" W=") {
        line.number()?;
        line.skip("s")?;
    } else if line.skips(" pend=") {
        let reasons = [
            ">MaxTA",
            ">MaxChannel",
            ">MaxRing",
            ">MaxThr",
            "ForkRateLimit",
            "NoNextFeed",
            "procsel-mismatch",
            "ConfBUG:NoCmdDefined!",
            "System:ForkFailure!",
        ];
        if !reasons.iter().any(|reason| line.skips(reason)) {
            return Err("no reason behind pend=".into());
        }
    }
    line.skip(" QA=")?;
    line.duration()?;
    if !line.skips(" channelwait") {
        line.skips(" threadwait");
    }
    Ok((vertices, agents as i64))
}

fn totals(line: &mut Line<'_>, sums: &Sums) -> Result<(), LineError> {
    line.skip("Kids: ")?;
    let agents = line.number()?;
    line.skip("  Idle: ")?;
    let idle = line.right(2)?;
    line.skip("  Msgs: ")?;
    line.right(3)?;
    line.skip("  Thrds: ")?;
    let threads = line.right(3)?;
    line.skip("  Rcpnts: ")?;
    let vertices = line.right(4)?;
    line.skip("  Uptime: ")?;
    line.duration()?;
    let found = (sums.agents, sums.idle, sums.threads, sums.vertices);
    if found == (agents, idle, threads, vertices) {
        Ok(())
    } else {
        Err(format!("agents, idle ones, threads and vertices are in fact {found:?}"))
    }
}

fn counters(line: &mut Line<'_>) -> Result<(), LineError> {
    for label in ["Msgs in ", " out ", " stored ", " Rcpnts in ", " out ", " stored "] {
        line.skip(label)?;
        line.number()?;
    }
    Ok(())
}

/// Names of the recorded dumps.
pub const DUMPS: [&str; 6] = ["full", "sigusr2", "tcp", "unix", "optionQ", "no-expiry"];

/// Returns a recorded dump.
pub fn dump(name: &str) -> String {
    let bytes = data(&format!("mailq-v1/{name}.s2c"));
    String::from_utf8(bytes).expect("recorded dumps are text")
}

#[test]
fn recorded_dumps_pass() {
    for name in DUMPS {
        assert_eq!(check_dump(&dump(name)), Ok(()), "{name}");
    }
}

/// Version 2 sent these; it uses the same report.
#[test]
fn recorded_reports_pass() {
    let text = String::from_utf8(data("mailq-v1/thread-reports.txt")).expect("text");
    let reports: Vec<&str> = text.split_inclusive("\n\n").collect();
    for report in &reports {
        let report = format!("{}\n", report.trim_end_matches('\n'));
        assert_eq!(check_report(&report), Ok(()), "{report}");
    }
    assert_eq!(reports.len(), 65);
}

/// Each case has a wrong blank, TAB, label or sum.
#[test]
fn slightly_wrong_dumps_fail() {
    let dump = dump("tcp");
    for (right, wrong) in [
        ("version zmailer 1.0\n", "version zmailer 1.0 \n"),
        ("1:\t90\t", "1: 90\t"),
        ("1; 69\t", "1;69\t"),
        ("1; 69\t", "2; 69\t"),
        ("\t#later please (", "\t#later please("),
        ("\t#(waiting", "\t# (waiting"),
        ("retry in 8s", "retry in 008s"),
        ("retry in 8s", "retry in 68s"),
        ("retry in 8s", "retry in 1h1d"),
        (", expires in 59m55s", " expires in 59m55s"),
        (", tries=0)", ", tries=0 )"),
        (" NextFeed,", "  NextFeed,"),
        ("waiting for thread slot", "waiting for ring slot"),
        ("Channels:\n", "Channels: \n"),
        (">4>5", ">4 >5"),
        (">4>5", ">4"),
        ("g3.test:\t>8\n", "g3.test:\t>7\n"),
        ("End:\n", ""),
        ("c/*/0\n", "c/*/1\n"),
        ("    c/g3.test/0\t\t\tN", "    c/g3.test/0\t\tN"),
        ("    c/g3.test/0\t\t\tN", "    c/g3.test/0                 N"),
        ("    c/g3.test/0\t\t\tN", "    c/g3.test/2\t\t\tN"),
        ("N=2   R=2   A=1  P", "N=2   R=2   A=1 P"),
        ("N=2   R=2", "N=2  R=2"),
        ("HA={1}s FA", "HA={1} FA"),
        ("OF={1} S={STUFF}", "OF={1,1} S={STUFF}"),
        ("S={STUFF}", "S={STUFFING}"),
        ("W=8s QA=5s", "W=8 QA=5s"),
        ("QA=5s threadwait", "QA=5s  threadwait"),
        ("pend=>MaxRing", "pend=MaxRing"),
        ("\tThreads:    8", "\tThreads: 8"),
        ("\tThreads:    8", "        Threads:    8"),
        ("\tThreads:    8", "\tThreads:    7"),
        ("Msgs:     9 Procs", "Msgs:     8 Procs"),
        ("Tlim: 1\n", "Tlim:   1\n"),
        ("Kids: 2  Idle", "Kids:  2  Idle"),
        ("Thrds:   8", "Thrds:   9"),
        ("Uptime: 5s", "Uptime: 5 sec"),
        ("out 0 stored 5 Rcpnts", "out 0 stored 5  Rcpnts"),
        ("stored 9\n", "stored 9\n\n"),
        ("stored 9\n", "stored 9"),
    ] {
        assert!(dump.contains(right), "{right}");
        let broken = dump.replacen(right, wrong, 1);
        assert!(check_dump(&broken).is_err(), "{right:?} -> {wrong:?}");
    }
}
