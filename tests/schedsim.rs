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
