//! Checks that the documents agree with the programs.

mod crates;
mod mdoc;
mod words;

use clap::CommandFactory;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    zsched_tests::source().to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns a program's options, short and long, that its manual page lacks.
fn missing_options(command: &clap::Command, page: &str) -> Vec<String> {
    let text = read(page).replace('\\', "");
    let mentions = |option: &str| {
        let words: Vec<&str> = text.split([' ', '\n']).collect();
        words.windows(2).any(|pair| pair[0] == "Fl" && pair[1] == option)
    };
    command
        .get_arguments()
        .filter(|argument| !argument.is_positional() && !argument.is_hide_set())
        .flat_map(|argument| {
            let short = argument.get_short().map(String::from);
            let long = argument.get_long().map(|long| format!("-{long}"));
            [short, long].into_iter().flatten()
        })
        .filter(|option| !mentions(option))
        .collect()
}

#[test]
fn manual_pages_have_every_option() {
    let scheduler = zsched_daemon::SchedulerOptions::command();
    assert_eq!(missing_options(&scheduler, "man/scheduler.8"), [""; 0], "scheduler.8");
    let mailq = zsched_mailq::MailqOptions::command();
    assert_eq!(missing_options(&mailq, "man/mailq.1"), [""; 0], "mailq.1");
    let router = zsched_router::RouterOptions::command();
    assert_eq!(missing_options(&router, "man/router.8"), [""; 0], "router.8");
    let smtpserver = zsched_smtpserver::SmtpServerOptions::command();
    assert_eq!(missing_options(&smtpserver, "man/smtpserver.8"), [""; 0], "smtpserver.8");
    let submit = zsched_submit::SubmitOptions::command();
    let missing = missing_options(&submit, "man/submit.1");
    assert_eq!(missing, [""; 0], "submit.1");
    let sendmail = zsched_submit::sendmail::SendmailOptions::command();
    let missing = missing_options(&sendmail, "man/sendmail.1");
    assert_eq!(missing, [""; 0], "sendmail.1");
    let schedsim = zsched_schedsim::SchedsimOptions::command();
    for subcommand in schedsim.get_subcommands() {
        let missing = missing_options(subcommand, "man/schedsim.1");
        assert_eq!(missing, [""; 0], "schedsim.1, {}", subcommand.get_name());
        let section = format!("\n.Ss {}\n", subcommand.get_name());
        assert!(read("man/schedsim.1").contains(&section), "schedsim.1 has no{section}");
    }
}

#[test]
fn router_example_is_a_configuration() {
    let path = Path::new("docs/router.cf.example");
    let text = read("docs/router.cf.example");
    let zenv = zsched_config::Zenv::default();
    // The commented lines, too, apart from sentences.
    let all = text.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c.is_ascii_lowercase()) => setting,
        _ => line,
    });
    let all = all.collect::<Vec<&str>>().join("\n");
    for text in [&text, &all] {
        let loaded = zsched_router::RouterConfig::parse(path, text.as_bytes(), "h.test", &zenv);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert!(loaded.1.is_empty(), "{}", loaded.1[0]);
    }
    let page = read("man/router.cf.5");
    for keyword in zsched_router::KEYWORDS.iter().map(|keyword| keyword.name) {
        assert!(page.contains(&format!("\n.It Cm {keyword} ")), "router.cf.5 has no {keyword}");
        assert!(all.lines().any(|line| line.starts_with(&format!("{keyword} "))), "{keyword}");
    }
}

#[test]
fn smtpserver_example_is_a_configuration() {
    let path = Path::new("docs/smtpserver.cf.example");
    let text = read("docs/smtpserver.cf.example");
    let zenv = zsched_config::Zenv::default();
    let all = text.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c.is_ascii_lowercase()) => setting,
        _ => line,
    });
    let all = all.collect::<Vec<&str>>().join("\n");
    for text in [&text, &all] {
        let loaded = zsched_smtpserver::ServerConfig::parse(path, text.as_bytes(), &zenv);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert!(loaded.1.is_empty(), "{}", loaded.1[0]);
    }
    let page = read("man/smtpserver.cf.5");
    for keyword in zsched_smtpserver::KEYWORDS.iter().map(|keyword| keyword.name) {
        let item = format!("\n.It Cm {keyword} ");
        assert!(page.contains(&item), "smtpserver.cf.5 has no {keyword}");
        assert!(all.lines().any(|line| line.starts_with(&format!("{keyword} "))), "{keyword}");
    }
}

/// With `UPDATE_EXPECT=1` in the environment, the test updates the page.
#[test]
fn mailq_manual_is_generated_from_options() {
    let mut command = zsched_mailq::MailqOptions::command();
    command.build();
    let page = read("man/mailq.1");
    let made = mdoc::replaced(&page, "options of mailq", &mdoc::options(&command));
    let made = mdoc::replaced(&made, "commands of mailq", &mdoc::commands(&command));
    if page != made && std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(root().join("man/mailq.1"), &made).expect("written");
        return;
    }
    assert_eq!(page, made, "run it with UPDATE_EXPECT=1");
}

#[test]
fn manual_lists_every_attribute() {
    let page = read("man/mailq-auth.5");
    for word in zsched_mailq_server::attributes::words() {
        let is_there = page
            .lines()
            .filter_map(|line| line.strip_prefix(".It Cm "))
            .any(|line| line.split(" , ").any(|name| name == word.name));
        assert!(is_there, "mailq-auth.5 has no {}", word.name);
    }
}

#[test]
fn option_check_finds_missing_option() {
    let command = clap::Command::new("x").arg(clap::Arg::new("unheard-of").long("unheard-of"));
    assert_eq!(missing_options(&command, "man/scheduler.8"), ["-unheard-of"]);
}

#[test]
fn named_files_exist() {
    for document in [
        "README.md",
        "docs/architecture.md",
        "docs/lists.md",
        "docs/recording.md",
        "docs/status-log.md",
        "docs/testing.md",
    ] {
        let text = read(document);
        let quoted = text.split('`').skip(1).step_by(2);
        let words = quoted.chain(text.split_ascii_whitespace());
        let ours = ["src/", "ta/", "man/", "docs/", "tests/", "benches/", ".ci/"];
        for path in words.filter(|word| ours.iter().any(|folder| word.starts_with(folder))) {
            let path = path.trim_end_matches(['.', ',', ':', ';', ')', '`']);
            assert!(root().join(path).exists(), "{document} names {path}");
        }
    }
}

/// Returns the tests that a table names, each with its file: "`tests/x.rs`: `one`, `two`".
fn named_tests(row: &str) -> Vec<(String, String)> {
    let mut file = "";
    let mut tests = Vec::new();
    for word in row.split('`').skip(1).step_by(2) {
        let is_test = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if word.ends_with(".rs") {
            file = word;
        } else if !file.is_empty() && word.chars().all(is_test) {
            tests.push((file.to_string(), word.to_string()));
        }
    }
    tests
}

#[test]
fn tests_named_by_lists_document_exist() {
    let text = read("docs/lists.md");
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let last_cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit_once("| "));
    let tests: Vec<_> = last_cells.flat_map(|(_, cell)| named_tests(cell)).collect();
    assert!(tests.len() > 40, "{tests:?}");
    for (file, test) in tests {
        let is_test = read(&file).contains(&format!("#[test]\nfn {test}()"))
            || read(&file).contains(&format!("#[test]\n    fn {test}()"));
        assert!(is_test, "{file} has no test {test}");
    }
    let named = named_tests("`a.rs`: `one`, `two`; `b.rs`: `three`");
    assert_eq!(named[2], ("b.rs".to_string(), "three".to_string()));
}

#[test]
fn manual_page_references_exist() {
    for page in fs::read_dir(root().join("man")).expect("man/") {
        let page = page.expect("a page").path();
        let text = fs::read_to_string(&page).expect("a page is text");
        for line in text.lines().filter_map(|line| line.strip_prefix(".Xr ")) {
            let mut words = line.split_ascii_whitespace();
            let (name, section) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let exists = Path::new(&root()).join(format!("man/{name}.{section}")).exists();
            // The pages of sections 2 and 3 belong to the system, and so do those of some programs.
            let is_of_system = ["2", "3"].contains(&section) || (name, section) == ("ssh", "1");
            let page = page.display();
            assert!(exists || is_of_system, "{page} refers to {name} {section}");
        }
    }
}

/// Returns the words in backquotes in the first column of the table with this head.
fn first_column(text: &str, head: &str) -> Vec<String> {
    let table = text.split(&format!("\n| {head} |")).nth(1).expect(head);
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).expect("a name").to_string()).collect()
}

#[test]
fn status_log_document_has_all_fields() {
    use zsched_format::status_log::{
        DeliveryStatus, HoldLine, LostLines, ReportLine, SmtpLine, StatusLine, TlsLine,
    };
    let text = read("docs/status-log.md");
    let examples: Vec<&str> =
        text.split("```json\n").skip(1).filter_map(|rest| rest.lines().next()).collect();
    let keys = |json: &serde_json::Value| -> Vec<String> {
        json.as_object().expect("an object").keys().cloned().collect()
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let entry: StatusLine<'_> = serde_json::from_str(examples[0]).expect("an entry");
    let report: ReportLine<'_> = serde_json::from_str(examples[1]).expect("a report");
    assert_eq!(serde_json::to_string(&report).expect("JSON"), examples[1]);
    assert_eq!(sorted(first_column(&text, "name")), keys(&serde_json::json!(report)));
    let hold: HoldLine<'_> = serde_json::from_str(examples[2]).expect("a hold");
    assert_eq!(serde_json::to_string(&hold).expect("JSON"), examples[2]);
    assert_eq!(sorted(first_column(&text, "key")), keys(&serde_json::json!(hold)));
    let tls: TlsLine<'_, serde_json::Value> = serde_json::from_str(examples[3]).expect("a result");
    assert_eq!(serde_json::to_string(&tls).expect("JSON"), examples[3]);
    assert_eq!(sorted(first_column(&text, "what")), sorted(keys(&serde_json::json!(tls))));
    let smtp: SmtpLine<'_> = serde_json::from_str(examples[4]).expect("a message by SMTP");
    assert_eq!(serde_json::to_string(&smtp).expect("JSON"), examples[4]);
    assert_eq!(sorted(first_column(&text, "name of a field")), keys(&serde_json::json!(smtp)));
    let gap: LostLines<'_> = serde_json::from_str(examples[5]).expect("a gap");
    assert_eq!(serde_json::to_string(&entry).expect("JSON"), examples[0]);
    assert_eq!(serde_json::to_string(&gap).expect("JSON"), examples[5]);
    let (entry, gap) = (serde_json::json!(entry), serde_json::json!(gap));
    let (first, second) = text.split_once("## What is lost").expect("two parts");
    assert_eq!(sorted(first_column(first, "field")), keys(&entry));
    assert_eq!(sorted(first_column(first, "part of `delays`")), sorted(keys(&entry["delays"])));
    assert_eq!(sorted(first_column(second, "field")), sorted(keys(&gap)));
    assert_eq!(first_column(first, "status | what"), DeliveryStatus::ALL.map(DeliveryStatus::word));
    for row in first.lines().filter(|line| line.ends_with("| yes |") || line.ends_with("| no |")) {
        let word = row.split('`').nth(1).expect("a status");
        let status = DeliveryStatus::ALL.into_iter().find(|status| status.word() == word);
        assert_eq!(status.expect("known").is_final(), row.ends_with("| yes |"), "{row}");
    }
}

#[test]
fn readme_commands_equal_tested_ones() {
    let readme = read("README.md");
    assert!(readme.contains("\n    cargo test\n"));
    let checks = read(".ci/run");
    assert!(checks.contains("\ndefault_stages=(format lint documents test bench package)\n"));
    assert!(checks.contains("\n    cargo test\n}\n"));
    assert!(readme.contains("target/release/scheduler --quick-start"));
}

/// Returns the lines that a patch needs to find, each hunk with its file.
fn wanted_by(patch: &str) -> Vec<(String, String)> {
    let mut file = String::new();
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("--- a/") {
            file = name.to_string();
        } else if line.starts_with("@@ ") {
            hunks.push((file.clone(), String::new()));
        } else if let (Some(" " | "-"), Some((_, hunk))) = (line.get(..1), hunks.last_mut()) {
            hunk.push_str(&line[1..]);
            hunk.push('\n');
        }
    }
    hunks
}

/// The bugs that the simulation must find (`docs/testing.md`) are patches that apply to the
/// sources.
#[test]
fn planted_bugs_apply_to_sources() {
    let planted = fs::read_dir(root().join("tests/simulation/planted")).expect("a folder");
    let patches = planted.map(|entry| entry.expect("an entry").path());
    let patches: Vec<PathBuf> =
        patches.filter(|path| path.extension().is_some_and(|name| name == "patch")).collect();
    assert!(patches.len() >= 9, "{patches:?}");
    for path in patches {
        let hunks = wanted_by(&fs::read_to_string(&path).expect("a patch"));
        assert!(!hunks.is_empty(), "{}", path.display());
        for (file, lines) in hunks {
            assert!(read(&file).contains(&lines), "{}: {file} has not\n{lines}", path.display());
        }
    }
}
