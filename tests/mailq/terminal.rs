//! The commands on a terminal: colour, width, keys, and questions.

use super::fake_scheduler::{control, full, json};
use super::support::{Run, Site};

/// Runs `mailq` on a terminal with this number of columns.
///
/// Each step waits for its first text in the output, and then types the second.
pub fn on_terminal(
    site: &Site,
    columns: u16,
    environment: &str,
    arguments: &str,
    steps: &[(&str, &str)],
) -> Run {
    let mailq = env!("CARGO_BIN_EXE_mailq");
    let mut command = zsched_tests::on_terminal(mailq, columns, steps);
    command.arg("-Z").arg(site.path("zmailer.conf"));
    command.args(arguments.split_ascii_whitespace());
    command.env("TZ", "UTC").env("TERM", "xterm").env_remove("NO_COLOR");
    for (name, value) in environment.split_terminator(' ').filter_map(|pair| pair.split_once('=')) {
        command.env(name, value);
    }
    super::support::run(&mut command)
}

#[test]
fn output_uses_colour_and_width_of_terminal() {
    let site = Site::new();
    let _control = full(&site);
    let plain = site.mailq("summary --width 80").good();
    assert!(!plain.contains('\x1b'));
    // Without a command and an option of the listing, the summary is shown.
    for (environment, arguments) in
        [("NO_COLOR=1", "summary"), ("TERM=dumb", "summary"), ("NO_COLOR=1", "")]
    {
        let run = on_terminal(&site, 80, environment, arguments, &[]);
        assert_eq!(run.good().replace("\r\n", "\n"), plain, "{environment}");
    }
    let coloured = on_terminal(&site, 80, "", "summary", &[]).good().replace("\r\n", "\n");
    assert!(coloured.contains("\x1b[1m1,203 messages\x1b[0m for"), "{coloured}");
    // Escape sequences of agents are not interpreted.
    assert!(coloured.contains("^[[31mnot now") && !coloured.contains('\u{9b}'), "{coloured}");
    let mut without_colour = coloured;
    for code in ["0", "1", "2", "31", "32", "33"] {
        without_colour = without_colour.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(without_colour, plain);
}

#[test]
fn top_shows_queue_and_obeys_keys() {
    let site = Site::new();
    let control = control(
        &site,
        &[
            ("SHOW JSON SUMMARY", &json("summary")),
            ("SHOW JSON THREADS limit=200 sort=backlog", &json("threads")),
            ("SHOW JSON THREADS limit=200 sort=undelivered", &json("threads")),
            ("SHOW JSON RINGS", &json("rings")),
            ("SHOW JSON AGENTS", &json("agents")),
            ("SHOW WHY smtp/mx.test", "smtp/mx.test: 3 messages wait for \u{1b}[2J\n"),
            ("RETRY smtp/mx.test", "+OK {\"messages\":3,\"recipients\":4}\n"),
            ("HOLD hold/x", "-FORBIDDEN\n"),
        ],
    );
    // Only changes are drawn. These texts are in places that were empty or differ completely.
    let steps =
        [("a-host-with", "e"), ("smtp/mx.test:", "xr"), ("tried", "jjh"), ("FORBIDDEN", "q")];
    let run = on_terminal(&site, 100, "", "top --interval 60", &steps);
    let shown = run.good();
    let requests = control.take_requests();
    for request in ["SHOW WHY smtp/mx.test", "RETRY smtp/mx.test", "HOLD hold/x"] {
        assert!(requests.iter().any(|line| line == request), "{requests:?}");
    }
    // Escape sequences in answers are not interpreted.
    assert!(shown.contains("^[[31mnot now") && !shown.contains('\u{9b}'), "{shown}");
    site.mailq("top").failed(64, "needs a terminal");
}

#[test]
fn irreversible_orders_ask_for_confirmation() {
    let site = Site::new();
    let counted = "+OK {\"messages\":12,\"recipients\":40,\"dry_run\":true}\n";
    let done = "+OK {\"messages\":12,\"recipients\":40}\n";
    let done = format!("*3 messages so far\n{done}");
    let answers = [
        ("DELETE id=5 dry-run=yes progress=yes", counted),
        ("DELETE id=5 progress=yes", done.as_str()),
    ];
    let control = control(&site, &answers);
    let ask = |answer| on_terminal(&site, 80, "", "delete 5", &[("[y/N]", answer)]).good();
    assert!(ask("n\n").contains("No changes made."));
    assert_eq!(control.take_requests(), ["DELETE id=5 dry-run=yes progress=yes", "QUIT"]);
    assert!(ask("y\n").contains("Deleted, without a report:\u{1b}[0m 12 messages, 40 recipients"));
    // No session waits while the user decides.
    let [counting, deleting] = answers.map(|(request, _)| request);
    assert_eq!(control.take_requests(), [counting, "QUIT", deleting, "QUIT"]);
    // Without a terminal there is no question, and no line on progress.
    site.mailq("delete 5").failed(69, "is not known");
    assert_eq!(control.take_requests(), ["DELETE id=5", "QUIT"]);
}

#[test]
fn watch_repeats_output() {
    let site = Site::new();
    let control = full(&site);
    let mut command = site.command("rings --watch=0.1");
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let started = std::time::Instant::now();
    let mut asked = 0;
    while asked < 3 {
        asked += control.take_requests().iter().filter(|line| *line == "SHOW JSON RINGS").count();
        assert!(started.elapsed() < super::support::DEADLINE);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().expect("it runs");
    child.wait().expect("it is our child");
    site.mailq("rings --watch=0").failed(64, "0.1 to 86400 seconds");
}
