//! The commands of all documents and manual pages, run as they stand.
//!
//! A command is what begins with the name of one of our programs, or pipes into it: in backticks,
//! in a line of its own, or in a block, which is run as one script. Words in capitals and the
//! places of an installation are replaced by those of the test. Commands of other programs, such as
//! `systemctl` and `cargo`, are not run. `quick_start` runs those of "Try it" in `README.md`.

use crate::support::{Site, control_file};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

const CLAUSES: &str = "*/*\n\texpiry=3650d queueonly command=\"${AGENTS}/count.py any\"\n\
     smtp/*\nsmtp/*.example.org\n";
/// The message that examples are about: `S10101639AbmKUKEJuveqC`.
const NUMBER: &str = "10101639";
const ARRIVED: Duration = Duration::new(1_795_255_449, 852_372_354);

/// Programs whose commands are run: ours, and one that talks to our socket.
const PROGRAMS: [&str; 17] = [
    "discard",
    "errormail",
    "expirer",
    "hold",
    "mailbox",
    "mailq",
    "newaliases",
    "pipe",
    "reroute",
    "router",
    "schedsim",
    "scheduler",
    "sendmail",
    "smtp",
    "smtpserver",
    "socat",
    "submit",
];

/// Commands that are not run, and why.
const NOT_RUN: [(&str, &str); 10] = [
    (
        "sendmail       /usr/lib/zsched/sendmail\nsendmail_args  -oi -odi -oem\n\
         nrcpt          500\nmaxsmtp        20\nverp_rate      100%",
        "lines of sympa.conf, not a command",
    ),
    ("scheduler --quick-start", "it runs until it is ended; quick_start has tests of it"),
    ("scheduler --status-log", "it runs until it is ended; status_log has tests of it"),
    ("scheduler --status-log FILE", "it runs until it is ended; status_log has tests of it"),
    ("scheduler --record FILE", "it runs until it is ended; recording has tests of it"),
    ("scheduler -n", "it runs until it is ended; reports_to_senders has tests of it"),
    ("scheduler done", "the words of a line, not a command"),
    ("mailbox -8", "an agent reads jobs until its input ends; tests/agents has tests of it"),
    ("smtp --probe HOST", "it asks name servers; tests/smtp has tests of it"),
    (
        "ssh -N -L 10174:127.0.0.1:174 mailhost &\nmailq -p 10174 localhost",
        "it needs another host; mailq -p is run by itself",
    ),
];

/// Commands that end with another status than 0 here.
const OTHER_STATUS: [(&str, i32); 7] = [
    // The scheduler must have ended.
    ("mailq job ID --export", 69),
    // No packets have vanished.
    ("mailq job ID lost send", 69),
    ("mailq job all --export", 69),
    // There is no terminal.
    ("mailq top", 64),
    // Nothing listens there.
    (OTHER_PORT, 69),
    // The message is old enough for a warning.
    ("mailq check --warn-age 1h --crit-count 10000", 1),
    // No such agent runs.
    ("mailq retire 4712", 1),
];

/// It asks the port of another installation, which this machine may have.
const OTHER_PORT: &str = "mailq -p 10174";

/// Submits the bulk job of the examples, whose name depends on its key alone.
const BULK_JOB: &str =
    "submit -Z ZENV -c smtp --key news-17 --not-before +1d --bulk members < message";

/// What stands for something else in commands, and what it is in the test.
const PLACEHOLDERS: [(&str, &str); 11] = [
    ("job ID", "job 0st20e"),
    ("/var/spool/postoffice", "var/postoffice"),
    ("/etc/zmailer.conf", "zmailer.conf"),
    ("POSTOFFICE", "postoffice"),
    ("ZENV", "zmailer.conf"),
    ("FILE", "scheduler.cf"),
    ("FOLDER", "new-spool"),
    ("RECORDING", "recording"),
    ("ADDRESS", "bob@example.net"),
    ("LOG", "status"),
    ("ID", "S10101639AbmKUKEJuveqC"),
];

/// Parts of commands, one for each form in which the documents have them.
const EXPECTED: [&str; 6] = [
    "cd docs/examples/simulation\nschedsim run --world world.toml",
    "mailq passwd watcher",
    "echo 'HOLD smtp/mx.example.org' | socat",
    "expirer -c smtpx -h '[192.0.2.66]'",
    "printf '4711\\tmx.example.net\\n' | hold -c smtp",
    "router --try staff",
];

/// Commands of a document in Markdown: what is in backticks, and blocks of indented lines.
fn of_markdown(text: &str) -> Vec<String> {
    let indented = |line: &&str| line.starts_with("    ") && !line.trim().is_empty();
    let lines: Vec<&str> = text.lines().collect();
    let spans = lines.iter().filter(|line| !indented(line));
    let spans = spans.flat_map(|line| line.split('`').skip(1).step_by(2));
    let spans = spans.filter(|span| is_complete(span)).map(str::to_string);
    let blocks = lines.split(|line| !indented(line)).map(|block| block.iter().map(|l| l.trim()));
    spans.chain(blocks.flat_map(|block| of_block(block.collect()))).collect()
}

/// Commands of a manual page: its displayed lines, and its displayed blocks.
fn of_manual(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut block: Option<Vec<String>> = None;
    for line in page.lines() {
        let plain = plain(line);
        match (&mut block, line) {
            (_, line) if line.starts_with(".Bd") => block = Some(Vec::new()),
            (_, ".Ed") => {
                let lines = block.take().unwrap_or_default();
                commands.extend(of_block(lines.iter().map(|line| line.trim()).collect()));
            }
            (Some(lines), _) => lines.push(plain),
            (None, _) => commands.extend(plain.strip_prefix(".Dl ").map(str::to_string)),
        }
    }
    commands.retain(|command| is_command(command));
    commands
}

/// A line of a manual page without its escapes.
fn plain(line: &str) -> String {
    let escapes = [("\\-", "-"), ("\\(aq", "'"), ("\\(dq", "\""), ("\\ ", " "), ("\\e", "\\")];
    escapes.iter().fold(line.to_string(), |line, (escape, text)| line.replace(escape, text))
}

/// The commands of a block: those after a prompt, or all of it as one script.
fn of_block(lines: Vec<&str>) -> Vec<String> {
    let prompted: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    let script = match prompted.is_empty() {
        true => lines.join("\n"),
        false => prompted.join("\n"),
    };
    Some(script).filter(|script| is_command(script)).into_iter().collect()
}

/// Returns true if one of the programs is the first word, or is piped to.
fn is_command(text: &str) -> bool {
    let parts = text.lines().flat_map(|line| line.split(" | "));
    let parts = parts.flat_map(|part| part.split(" && "));
    let mut programs = parts.filter_map(|part| part.split_whitespace().next());
    programs.any(|program| PROGRAMS.contains(&program))
}

/// Returns true for a command in backticks; the name of a program alone names it.
fn is_complete(text: &str) -> bool {
    let has_words = text == "mailq" || text.contains(' ');
    has_words && is_command(text)
}

/// All commands of the documents, each once.
fn documented_commands() -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        let is_readme = path.ends_with("README.md");
        let text = match text.split_once("## Test it") {
            Some((_, rest)) if is_readme => rest,
            _ => &text,
        };
        commands.extend(match path.extension().is_some_and(|name| name == "md") {
            true => of_markdown(text),
            false => of_manual(text),
        });
    }
    commands
}

/// The documents and manual pages.
fn documents() -> Vec<PathBuf> {
    let source = zsched_tests::source();
    let mut found = vec![source.join("README.md"), source.join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/screens", "docs/examples", "docs/scheduling", "man"] {
        let entries = fs::read_dir(source.join(folder)).expect("a folder");
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    let is_document = |path: &Path| {
        let name = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        name == "md" || name.parse::<u8>().is_ok()
    };
    found.retain(|path| path.is_file() && is_document(path));
    found
}

/// Replaces what stands for something else, as words of their own.
fn with_places(command: &str, site: &Site) -> String {
    let mut command = command.to_string();
    for (placeholder, meaning) in PLACEHOLDERS {
        let meaning = match meaning.contains(['@', 'S', ' ']) {
            true => meaning.to_string(),
            false => site.path(meaning).display().to_string(),
        };
        let mut replaced = String::new();
        let mut rest = command.as_str();
        while let Some((before, after)) = rest.split_once(placeholder) {
            let is_letter = |c: char| c.is_ascii_alphanumeric();
            let is_word = !before.ends_with(is_letter) && !after.starts_with(is_letter);
            replaced.push_str(before);
            replaced.push_str(if is_word { &meaning } else { placeholder });
            rest = after;
        }
        command = replaced + rest;
    }
    command
}

/// Makes the files that the commands name.
fn make_named_files(site: &Site) {
    let source = zsched_tests::source().join("docs/examples/simulation");
    let copy = site.path("docs/examples/simulation");
    fs::create_dir_all(&copy).expect("folders");
    for entry in fs::read_dir(&source).expect("examples") {
        let name = entry.expect("an example").file_name();
        fs::copy(source.join(&name), copy.join(&name)).expect("a copy");
    }
    for (name, example) in [("now.cf", "one-agent.cf"), ("planned.cf", "ten-agents.cf")] {
        fs::copy(source.join(example), site.path(name)).expect("a configuration");
    }
    let world = "length = \"10m\"\n[[host]]\nname = \"*\"\n\
         [[mail]]\nchannel = \"smtp\"\nhost = \"a.example\"\nper_minute = 5\n";
    site.write("world.toml", world);
    site.write("password", "sekret\n");
    site.write("sm.conf", "procm SPfn /usr/bin/procmail procmail -a $h -d $u\n");
    site.write("aliases", "staff: root, bob@example.net\n");
    site.write("router.cf", &format!("aliases {}\n", site.path("aliases").display()));
    site.write("members", "alice@example.net\n");
    site.write("message", "To: list@example.org\nSubject: news\n\nNone.\n");
    fs::create_dir_all(site.path("var")).expect("a folder");
    symlink(site.path("postoffice"), site.path("var/postoffice")).expect("a link");
}

/// Puts the message of the examples into the spool.
fn put_message(site: &Site) {
    let recipients = [
        "smtp mx.example.org bob@example.net",
        "smtp mail.example.org carol@mail.example.org",
        "smtp old-relay.example.org dave@old-relay.example.org",
    ];
    let control = control_file(NUMBER, &recipients).replace("<id@x>", "<1@example.org>");
    site.put_file(NUMBER, control.as_bytes());
    let message = File::options().write(true).open(site.path("postoffice/queue/10101639"));
    let arrived = SystemTime::UNIX_EPOCH + ARRIVED;
    message.expect("the message file").set_modified(arrived).expect("its time is set");
}

fn run(command: &str, site: &Site) -> Output {
    let programs = zsched_tests::program("mailq");
    let programs = programs.parent().expect("a folder").display();
    Command::new("sh")
        .args(["-ec", &with_places(command, site)])
        .current_dir(site.path(""))
        .env("PATH", format!("{programs}:/usr/bin:/bin"))
        .env("ZCONFIG", site.path("zmailer.conf"))
        // Some read a password, or a message.
        .stdin(File::open(site.path("password")).expect("an input"))
        .output()
        .expect("sh starts")
}

/// Returns true if a program of the system is installed; with `CI` set, it must be.
fn is_installed(program: &str) -> bool {
    let found = ["/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(program).exists());
    assert!(found || std::env::var_os("CI").is_none(), "{program} is not installed");
    found
}

/// Returns true if a command has ended as it should here.
fn is_good(command: &str, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = OTHER_STATUS.iter().find(|(other, _)| *other == command);
    if let Some((_, status)) = expected {
        return output.status.code() == Some(*status);
    }
    // The name of a subcommand or an option, whose words are missing.
    let is_name = command.split(' ').count() <= 3;
    let needs_words = ["required", "nothing is selected", "usage: ", "no recipients"];
    match output.status.code() {
        Some(0) => true,
        // The queue has little mail. No router takes what other commands have submitted, of which
        // a check warns after ten seconds.
        Some(1) => {
            let stdout = String::from_utf8_lossy(&output.stdout);
            said.contains("no matching mail now") || stdout.contains("without a router: none runs")
        }
        // Another command has held it before.
        Some(69) => said.contains("already held"),
        Some(64) => is_name && needs_words.iter().any(|words| said.contains(words)),
        _ => false,
    }
}

#[test]
fn commands_of_documents_run_as_they_stand() {
    let site = Site::new("");
    site.write("scheduler.cf", &format!("PARAMmailqsock=TCP:0\n{CLAUSES}"));
    site.add_zenv(&format!("STATUSLOG={}", site.path("status").display()));
    put_message(&site);
    make_named_files(&site);
    site.add_zenv(&format!("MAILSHARE={}", site.path("").display()));
    fs::create_dir_all(site.path("postoffice/public")).expect("a folder");
    // The second one renames the recording of the first.
    let recording = site.path("recording").display().to_string();
    let first = site.start_with(&["--record", &recording]);
    assert_eq!(first.end(libc::SIGTERM).code(), Some(0));
    site.write("log", "");
    let daemon = site.start_with(&["--record", &recording]);

    let mut commands = documented_commands();
    for (command, why) in NOT_RUN {
        assert!(commands.remove(command), "no document has {command:?}, not run: {why}");
    }
    for (command, _) in OTHER_STATUS {
        assert!(commands.contains(command), "no document has {command:?}");
    }
    assert!(commands.len() > 90, "{commands:?}");
    for part in EXPECTED {
        assert!(commands.iter().any(|command| command.contains(part)), "{part} is not found");
    }
    if !is_installed("socat") {
        eprintln!("not run: the command with socat, which is not installed");
        commands.retain(|command| !command.contains("socat"));
    }
    if TcpStream::connect("127.0.0.1:10174").is_ok() {
        commands.remove(OTHER_PORT);
    }
    let mut failed = Vec::new();
    for command in std::iter::once(BULK_JOB.to_string()).chain(commands) {
        let output = run(&command, &site);
        if !is_good(&command, &output) {
            let said = String::from_utf8_lossy(&output.stderr);
            let printed = String::from_utf8_lossy(&output.stdout);
            failed.push(format!("{command:?}: {}: {said}{printed}", output.status));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    drop(daemon);
}
