//! Tests of the program `schedsim` with the example of the documents.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let folder = zsched_tests::source().join("docs/examples/simulation");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedsim"));
    command.current_dir(folder).arg("run").args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

const EXAMPLE: [&str; 8] =
    ["--world", "world.toml", "--cf", "one-agent.cf", "--cf", "ten-agents.cf", "--hours", "0.05"];

#[test]
fn equal_seeds_give_equal_output() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plots = ["a.svg", "b.svg"].map(|name| folder.path().join(name));
    let outputs = plots.each_ref().map(|plot| {
        let plot = plot.to_str().expect("a path");
        let output = run(&[&EXAMPLE[..], &["--json", "--plot", plot]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    });
    assert_eq!(outputs[0], outputs[1]);
    let [a, b] = plots.map(|plot| std::fs::read_to_string(plot).expect("a plot"));
    assert_eq!(a, b);
    assert!(a.starts_with("<svg ") && a.contains("smtp/big.example"));
    let other = run(&[&EXAMPLE[..], &["--json", "--seed", "2"]].concat());
    assert_ne!(text(&other.stdout), outputs[0]);
}

#[test]
fn more_agents_shorten_queue_of_large_site() {
    let output = run(&[&EXAMPLE[..], &["--json"]].concat());
    let summaries: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let number = |index: usize, name: &str| {
        summaries[index]["totals"][name].as_f64().unwrap_or_else(|| panic!("{name} is a number"))
    };
    assert_eq!(number(0, "recipients"), number(1, "recipients"), "the same mail");
    assert!(number(0, "longest_queue") > 10.0 * number(1, "longest_queue"));
    for index in [0, 1] {
        let ends = ["delivered", "failed", "expired", "queued"].map(|name| number(index, name));
        assert_eq!(ends.iter().sum::<f64>(), number(index, "recipients"));
    }
}

#[test]
fn tables_show_configurations_side_by_side() {
    let output = text(&run(&EXAMPLE).stdout);
    let head = output.lines().next().expect("a line");
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["one-agent.cf", "ten-agents.cf"]);
    assert!(output.contains("busiest destinations under ten-agents.cf"));
}

#[test]
fn malformed_world_is_reported_with_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let world = folder.path().join("world.toml");
    std::fs::write(&world, "[[mail]]\nchanel = \"smtp\"\n").expect("written");
    let world = world.to_str().expect("a path");
    let output = run(&["--world", world, "--cf", "one-agent.cf"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = text(&output.stderr);
    assert!(complaint.starts_with(&format!("schedsim: {world}:2:1: unknown field `chanel`")));
    let missing = run(&["--world", "world.toml", "--cf", "nowhere.cf"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn later_priority_mail_does_not_overtake_old_mail() {
    let files = ["../../scheduling/priority.toml", "../../scheduling/priority.cf"];
    let output = run(&["--world", files[0], "--cf", files[1], "--hours", "0.2", "--json"]).stdout;
    let summaries: serde_json::Value = serde_json::from_slice(&output).expect("it prints JSON");
    let overtaken =
        |kind: usize| summaries[0]["mail"][kind]["overtaken"].as_f64().expect("seconds");
    // Priorities are 0, 5 and 9, and a step between them is a minute. Mail of the first kind alone
    // is more than can be delivered.
    assert_eq!(overtaken(0), 0.0);
    assert!((200.0..=300.0).contains(&overtaken(1)), "{}", overtaken(1));
    assert!(overtaken(2) <= 540.0, "{}", overtaken(2));
}

#[test]
fn deliveries_with_rate_are_evenly_spaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("scheduler.cf");
    let text = "smtp/*\n\tmaxthr=20 rate=100/1m overfeed=0 interval=1h\n\tcommand=\"smtp -s\"\n";
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("a path");
    let world = "../../scheduling/rate.toml";
    let output = run(&["--world", world, "--cf", file, "--hours", "0.1", "--json"]).stdout;
    let summaries: serde_json::Value = serde_json::from_slice(&output).expect("it prints JSON");
    let thread = &summaries[0]["threads"][0];
    let number = |name: &str| thread[name].as_f64().expect("a number");
    assert!((590.0..=600.0).contains(&number("jobs")), "{}", number("jobs"));
    assert!(number("shortest_gap") > 0.55 && number("longest_gap") < 0.65, "{thread}");
}

/// The results of a world with one destination and this configuration, as JSON.
fn summary(world: &str, config: &str, options: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = ["world.toml", "scheduler.cf"].map(|name| folder.path().join(name));
    for (file, text) in files.iter().zip([world, config]) {
        std::fs::write(file, text).expect("written");
    }
    let [world, config] = files.each_ref().map(|file| file.to_str().expect("a path"));
    let output = run(&[&["--world", world, "--cf", config, "--json"], options].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summaries: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("it prints JSON");
    summaries[0].clone()
}

/// A hundred messages at once for a host that takes two seconds for each.
const BURST: &str = "[[host]]\nname = \"*\"\nlatency = 2\nspread = 0\n\
    [[mail]]\nchannel = \"smtp\"\nhost = \"mx.test\"\nper_minute = 6e7\nmessages = 100\n";
/// One agent for each host, which gets up to 21 jobs at once.
const ONE_AGENT: &str = "smtp/*\n\tmaxthr=1 overfeed=20 interval=1h\n\tcommand=\"smtp -s\"\n";

#[test]
fn agents_of_destination_are_counted_once_however_many_jobs_they_have() {
    let summary = summary(BURST, ONE_AGENT, &["--hours", "0.01"]);
    let thread = &summary["threads"][0];
    assert_eq!(
        (&thread["concurrency"], &thread["concurrency_deviation"]),
        (&1.0.into(), &0.0.into())
    );
    // A job begins when its agent starts on it, not when the scheduler hands it over.
    assert!(thread["shortest_gap"].as_f64() >= Some(2.0), "{thread}");
}

#[test]
fn longest_queue_between_samples_is_found() {
    // A sample is taken every 30 seconds. The burst is over after four.
    let world = BURST.replace("latency = 2", "latency = 0.03") + "from = 32\n";
    let summary = summary(&world, ONE_AGENT, &["--hours", "1"]);
    let over_time = summary["over_time"].as_array().expect("a list");
    let sampled = over_time.iter().filter_map(|point| point["queued"].as_u64()).max();
    let totals = &summary["totals"];
    assert_eq!((totals["longest_queue"].as_u64(), sampled), (Some(100), Some(0)), "{totals}");
    assert_eq!((&totals["most_agents"], &totals["delivered"]), (&1.into(), &100.into()));
}

#[test]
fn delay_without_delivery_is_absent_and_queue_is_beside_it() {
    let world = format!(
        "[[host]]\nname = \"*\"\ndefer = 1\n{}",
        &BURST[BURST.find("[[mail").unwrap_or(0)..]
    );
    let summary = summary(&world, ONE_AGENT, &["--hours", "0.5"]);
    for results in [&summary["totals"], &summary["mail"][0], &summary["threads"][0]] {
        assert_eq!((&results["delay"], &results["queued"]), (&().into(), &100.into()), "{results}");
    }
    assert!(summary["totals"]["oldest_queued"].as_f64() > Some(1799.0));
    assert!(summary["over_time"][5]["delay"].is_null());
}

#[test]
fn mail_of_one_pattern_has_one_row() {
    // The world has two kinds of mail for smtp/big.example.
    let output = text(&run(&EXAMPLE).stdout);
    let (_, kinds) = output.split_once("by channel and host of the mail\n\n").expect("a table");
    let (kinds, _) = kinds.split_once("\n\n").expect("its end");
    assert_eq!(kinds.matches("smtp/big.example").count(), 1, "{kinds}");
    assert_eq!(kinds.lines().count(), 1 + 3 * 3, "{kinds}");
    let titles: Vec<&str> = kinds.lines().next().expect("titles").split("  ").collect();
    let titles: Vec<&str> =
        titles.into_iter().map(str::trim).filter(|title| !title.is_empty()).collect();
    assert_eq!(titles, ["delivered", "queued", "50 %", "90 %", "99 %", "longest", "recipients"]);
}

#[test]
fn tables_fit_width() {
    for columns in [60, 80, 140] {
        let output =
            text(&run(&[&EXAMPLE[..], &["--width", &columns.to_string()]].concat()).stdout);
        let longest = output.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(columns), "{output}");
        assert_eq!(output.contains('…'), columns < 140, "{output}");
    }
    assert!(!text(&run(&EXAMPLE).stdout).contains('…'), "a pipe has no width");
}

#[test]
fn progress_is_shown_on_terminal_only() {
    let output = run(&EXAMPLE);
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
    let schedsim = env!("CARGO_BIN_EXE_schedsim");
    let mut command = zsched_tests::on_terminal(schedsim, 80, &[]);
    command.current_dir(zsched_tests::source().join("docs/examples/simulation"));
    let output = command.env("TERM", "xterm").arg("run").args(EXAMPLE).output().expect("it starts");
    let output = text(&output.stdout);
    assert!(output.contains("one-agent.cf") && output.contains("% after "), "{output}");
    let (_, tables) = output.rsplit_once('\x1b').expect("the bar is removed");
    assert!(tables.contains("busiest destinations") && !tables.contains("% after"), "{tables}");
    assert!(tables.lines().skip(1).all(|line| line.chars().count() <= 80), "{tables}");
}

#[test]
fn plot_has_queue_agents_and_delay_with_equal_scales() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plot = folder.path().join("plot.svg");
    run(&[&EXAMPLE[..], &["--plot", plot.to_str().expect("a path")]].concat());
    let plot = std::fs::read_to_string(plot).expect("a plot");
    for quantity in ["recipients in the queue", "agents", "delay of 90 %"] {
        assert_eq!(plot.matches(&format!("cf: {quantity}")).count(), 2, "{quantity}");
    }
    // The queue of only the first configuration is this long.
    assert_eq!(plot.matches("\n1,000\n").count(), 2, "both diagrams have the same labels");
}

#[test]
fn version_and_completions_are_printed_on_standard_output() {
    let printed = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_schedsim")).args(arguments).output();
        let output = output.expect("it starts");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        text(&output.stdout)
    };
    assert_eq!(printed(&["--version"]), format!("schedsim {}\n", env!("CARGO_PKG_VERSION")));
    assert!(printed(&["--completions", "bash"]).contains("--world"));
}
