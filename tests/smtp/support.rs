//! The agent in the process of the test, with jobs for a peer.

use std::path::Path;
use std::time::Duration;
use zsched_agent::Scope;
use zsched_agent::testing::{TestJob, TestRun};
use zsched_smtp::client::Client;
use zsched_smtp::configuration::Configuration;
use zsched_smtp::dialer::ClientOptions;
use zsched_smtp::dialogue_log::DialogueLog;
use zsched_smtp::mailer::Mailer;
use zsched_smtp::time_limits::TimeLimits;

/// A long time: nothing in a test waits for it.
const LONG: Duration = Duration::from_secs(60);

/// Creates an agent with the text of a configuration. `short` limits end soon, for silent peers.
pub fn agent_with(configuration: &str, options: ClientOptions, short: Option<Duration>) -> Mailer {
    let mut configuration =
        Configuration::parse(Path::new("smtp-ta.conf"), configuration).expect("a configuration");
    let wait = short.unwrap_or(LONG);
    configuration.session.timeouts = TimeLimits {
        connect: LONG,
        greeting: wait,
        command: wait,
        data: wait,
        write: wait,
        end: wait,
        job: LONG,
    };
    let hello_name = "client.test".to_string();
    let options = ClientOptions { hello_name, ..options };
    Mailer::new(Client::new(options, configuration, DialogueLog::default()))
}

/// Creates an agent without configuration.
pub fn agent() -> Mailer {
    agent_with("", ClientOptions::default(), None)
}

/// The control file of a message for these recipients, each with an optional `N` line behind ` | `.
pub fn control_file(host: &str, sender: &str, recipients: &[&str]) -> String {
    let mut text = format!("@ 0x00000007\ni 4711\no 0\nl <id@x>\n{sender}\n");
    for recipient in recipients {
        let (user, notify) = recipient.split_once(" | ").unwrap_or((recipient, ""));
        text += &format!("r           smtp {host} {user} 0\n");
        if !notify.is_empty() {
            text += &format!("N {notify}\n");
        }
    }
    text + "m\nSubject: test\n\n"
}

/// The line of an ordinary sender.
pub const SENDER: &str = "s local - alice@a.test 0";

/// Gives a message for these recipients to an agent.
pub fn deliver(agent: &mut Mailer, host: &str, recipients: &[&str], body: &str) -> TestRun {
    deliver_file(agent, &control_file(host, SENDER, recipients), body)
}

/// Gives a control file to an agent.
pub fn deliver_file(agent: &mut Mailer, control_file: &str, body: &str) -> TestRun {
    let job = TestJob::new(control_file).with_body(body);
    job.run(&Scope::channel("smtp"), |job| agent.work(job))
}

/// The outcomes of recipients, in short: `ann ok3, bob deferred 4.2.1`.
pub fn outcomes(run: &TestRun, users: &[&str]) -> String {
    let one = |user: &&str| {
        let report = run.report(user);
        // A failure has its codes in the control file only.
        let note = run.notes.iter().find(|note| note.user == **user);
        let notary =
            if report.notary.len() > 2 { Some(&report.notary) } else { note.map(|n| &n.notary) };
        let status = notary.map(|fields| fields[2].split(' ').next().unwrap_or_default());
        let user = user.split('@').next().unwrap_or_default();
        let status = status.filter(|_| !report.status.starts_with("ok")).unwrap_or_default();
        format!("{user} {} {status}", report.status).trim_end().to_string()
    };
    users.iter().map(one).collect::<Vec<_>>().join(", ")
}
