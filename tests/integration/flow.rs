//! Flow control: windows that are learned or shared, dead destinations, rates, packets.

use crate::support::{Client, DEADLINE, Site, hold_for, timeout, until, until_within};
use std::time::Duration;

const COUNT: &str = "command=\"${AGENTS}/count.py c\"";

/// Returns the clause of a channel `c` with these settings.
fn clause(settings: &str) -> String {
    format!("c/*\n\tidlemax=1h overfeed=0 {settings}\n")
}

/// Returns recipients for one message, all at one host.
fn users(host: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().map(|name| format!("c {host} {name}")).collect()
}

fn put(site: &Site, recipients: &[String]) {
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    site.put_quietly(&recipients);
}

#[test]
fn window_adapts_to_host_that_limits_connections() {
    let site = Site::new(&clause(
        "maxthr=20 initial-concurrency=5 packet=2 interval=1s retries=1\n\
         \tpositive-feedback=1/concurrency negative-feedback=1/concurrency\n\
         \tcommand=\"${AGENTS}/limiter.py c 0.1\"",
    ));
    put(&site, &users("a.test", (0..200).map(|user| format!("user{user}"))));
    let _daemon = site.start();
    site.until_empty();
    let (mut reached, mut refused) = (0, 0);
    for job in site.events().of("job") {
        match job.about.split(' ').collect::<Vec<_>>()[..] {
            [count, "reached", _] => reached += count.parse::<u32>().expect("a count"),
            [_, "refused", _] => refused += 1,
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(reached, 200, "each once");
    // The window tries more than five at times; without feedback, fifteen of twenty were refused
    // all the time.
    assert!((1..=100).contains(&refused), "{refused} of 100 jobs and more were refused");
}

#[test]
fn mail_for_dead_host_waits_and_counts_as_tried() {
    let site = Site::new(&clause(&format!(
        "maxthr=2 interval=1h retries=1 failed-cohort-limit=2 {COUNT}"
    )));
    for number in 0..40 {
        site.put_quietly(&[&format!("c dead.test deferall!{number}")]);
    }
    let mut daemon = site.start();
    let why = || {
        let mut client = Client::local(&site, "postoffice/.scheduler.control");
        client.ask("SHOW JSON WHY c/dead.test")
    };
    until("it is dead", || why().contains("\"block\":\"dead\""));
    until("all of its mail waits", || why().contains("\"messages\":40"));
    assert!(why().contains("as told: deferall"), "{}", why());
    until("it is logged", || site.logged("c/dead.test is dead") == 1);
    let tried = site.events().count("take");
    assert!((4..=8).contains(&tried), "{tried} were tried by agents");
    // Mail of other hosts is delivered, and new mail for this host waits.
    site.put(&["c alive.test now", "c dead.test deferall!later"]);
    until("others are delivered", || site.events().count("count") == 1);
    hold_for(Duration::from_millis(300), "it rests", || site.events().count("take") == tried + 1);
    daemon.assert_runs();
    until_within(timeout(30) + DEADLINE, "it is stored that it is dead", || {
        site.read("postoffice/.scheduler.learned").contains("\"Dead\"")
    });
    daemon.kill();
    // The next scheduler also has it as dead.
    let _daemon = site.start();
    until("it is known to be dead", || why().contains("\"block\":\"dead\""));
    assert_eq!(site.events().count("take"), tried + 1, "nothing was tried again");
    site.write("open", "");
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    client.order("RETRY c/dead.test");
    site.until_empty();
    assert_eq!(site.events().deliveries().len(), 42);
}

#[test]
fn deliveries_keep_to_rate() {
    // One delivery each 3 s: long enough to be seen on a slow machine.
    let site = Site::new(&clause(&format!("maxthr=5 rate=1/3s {COUNT}")));
    put(&site, &["c other.test 0".to_string()]);
    for number in 1..=3 {
        site.put_quietly(&[&format!("c a.test {number}")]);
    }
    let _daemon = site.start();
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    until("one waits for its time", || {
        client.ask("SHOW JSON WHY c/a.test").contains("\"why\":\"pace\"")
    });
    site.until_empty();
    let events = site.events();
    let of_host = events.of("count").filter(|event| event.address() != "0");
    let times: Vec<f64> = of_host.map(|event| event.time).collect();
    // These are two distances of 3 s; the start of the first agent may take some of that.
    let span =
        times.iter().copied().fold(0.0, f64::max) - times.iter().copied().fold(1e12, f64::min);
    assert!(times.len() == 3 && span > 3.0, "{times:?}");
}

#[test]
fn hosts_of_one_provider_share_a_window() {
    let site = Site::new(
        "c/*\n\tidlemax=1h overfeed=0 maxthr=2 window-key=\"*.big.test=big\"\n\
         \tcommand=\"${AGENTS}/count.py c 0.05\"\n",
    );
    for number in 0..20 {
        site.put_quietly(&[&format!("c h{}.big.test big{number}", number % 10)]);
    }
    for number in 0..4 {
        site.put_quietly(&[&format!("c h{number}.small.test small{number}")]);
    }
    let _daemon = site.start();
    site.until_empty();
    let events = site.events();
    assert_eq!(events.deliveries().len(), 24);
    assert!(events.most_at_a_time(|event| event.address().starts_with("big")) <= 2);
}

#[test]
fn large_message_is_split_into_packets() {
    let site = Site::new(&clause("maxthr=4 packet=5 command=\"${AGENTS}/count.py c 0.02\""));
    put(&site, &users("a.test", (0..23).map(|user| user.to_string())));
    let _daemon = site.start();
    site.until_empty();
    let events = site.events();
    events.assert_once_each((0..23).map(|user| user.to_string()));
    assert_eq!(events.count("job"), 5);
    assert!(events.most_at_a_time(|_| true) > 1, "several work on it");
}

#[test]
fn own_agents_accept_packets() {
    let site = Site::new(
        "local/*\n\tidlemax=1h overfeed=0 maxthr=3 packet=2\n\
         \tcommand=\"discard -c local\"\n",
    );
    let recipients: Vec<String> = (0..7).map(|user| format!("local h.test {user}")).collect();
    put(&site, &recipients);
    let _daemon = site.start();
    site.until_empty();
    until("the statistics log has all", || site.read("statistics").lines().count() == 7);
}
