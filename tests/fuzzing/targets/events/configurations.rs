//! Configurations and settings with extreme values.

use super::super::byte_source::ByteSource;
use std::path::Path;
use std::rc::Rc;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::Settings;
use zsched_format::selection::Selection;

/// Configurations that replace each other. The first one delivers all mail.
const TEXTS: [&str; 8] = [
    "*/*\n\tinterval=1m expiry=0 command=x\n",
    // Tight limits, different ones for each channel.
    "*/*\n\tinterval=10s expiry=1m maxta=3\n\
     smtp/*\n\tmaxring=2 maxchannel=2 overfeed=1 retries=\"1 2\" command=\"smtp -c $channel\"\n\
     local/*\n\tmaxring=1 agent-timeout=5s command=\"local -h $host\"\n\
     */*\n\tcommand=x\n",
    // The same programs with other limits.
    "*/*\n\tinterval=1s expiry=1s\n\
     smtp/*\n\tmaxring=1 maxchannel=1 overfeed=0 maxthr=3 command=\"smtp -c $channel\"\n\
     local/*\n\tmaxring=7 idlemax=1s command=\"local -h $host\"\n\
     */*\n\tcommand=y\n",
    // Maximum values.
    "*/*\n\tinterval=36500d retries=\"4294967295 0\" expiry=36500d expiry2=36500d skew=2147483647 \
     overfeed=10000 maxthr=1000000 idlemax=36500d agent-timeout=36500d ageorder command=x\n",
    // Minimum values.
    "*/*\n\tinterval=1s retries=0 expiry=1s expiry2=0 skew=1 overfeed=0 maxthr=1 maxring=1 maxta=1 \
     idlemax=1s agent-timeout=1s command=x\n",
    // No tries without a request.
    "smtp/*\n\tqueueonly expiry=1h command=x\n\
     local/*\n\twakeuprestartonly maxthr=5 overfeed=2 command=x\n\
     */*\n\tinterval=5m\n",
    // Most destinations match no clause.
    "smtp/a.test\n\tcommand=\"y $host\" maxring=2\n",
    "*/a.test\n\tmaxthr=2 ageorder overfeed=3\n\
     smtp/*\n\tcommand=x interval=7s maxchannel=4\n\
     hold/*\n\tcommand=x queueonly\n\
     */*\n\tcommand=\"z $host\" idlemax=3s\n",
];

thread_local! {
    static CONFIGURATIONS: Vec<Rc<Config>> = TEXTS.iter().map(|text| parse(text)).collect();
}

/// Returns the configuration of any number.
pub fn configuration(number: usize) -> Rc<Config> {
    CONFIGURATIONS.with(|all| Rc::clone(&all[number % all.len()]))
}

fn parse(text: &str) -> Rc<Config> {
    let context = ConfigContext::unprivileged(Zenv::default());
    let loaded = Config::parse(Path::new("cf"), text.as_bytes(), &context);
    Rc::new(loaded.unwrap_or_else(|errors| panic!("{errors:?} in\n{text}")).config)
}

/// Returns settings of the scheduler.
pub fn settings(draw: &mut ByteSource<'_>) -> Settings {
    let flags = draw.byte();
    Settings {
        // This is rare, as little happens then.
        frozen: flags & 0xf == 0xf,
        wait_for_initial_scan: flags & 0x10 != 0,
        selection: (flags & 0xe0 == 0xe0).then(|| Selection::parse("smtp/*").expect("a selection")),
        fork_rate: [30, 1, 0, u32::MAX][draw.below(4)],
        max_agents: [50, 1, 2, 5][draw.below(4)],
        log_finished_messages: flags & 0x20 != 0,
        record_attempts: flags & 0x20 == 0,
        // Most runs have few threads, so larger steps would do all at once.
        reload_step: 2,
        seed: u64::from(draw.byte()),
        ..Settings::default()
    }
}
