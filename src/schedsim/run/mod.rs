//! `schedsim run`: simulates one or more configurations in the same world.
//!
//! | file | what |
//! |---|---|
//! | [`world`] | the file that describes hosts, agents and mail |
//! | [`traffic`] | its mail |
//! | [`summary`] | the results |
//! | [`table`], [`plot`] | their presentation |

mod plot;
pub(crate) mod summary;
mod table;
mod traffic;
mod world;

use crate::SchedsimError;
use crate::progress::Progress;
use crate::statistics::Statistics;
use clap::Args;
use console::Term;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use summary::Summary;
use traffic::Traffic;
use world::World;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::Settings;
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_simulation::{Simulation, SimulationSetup};
use zsched_spool::{HashFolder, SpoolName};

/// Start of every simulation: midnight, 1 January 2027, UTC.
const START: Timestamp = Timestamp::from_seconds(1_798_761_600);
/// Number of samples of the queues.
const SAMPLE_COUNT: u32 = 120;
/// Default of `--hours`.
const DEFAULT_HOURS: f64 = 6.0;

/// Options of `schedsim run`.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// A configuration to simulate; given more than once, they are compared
    #[arg(short = 'f', long = "cf", value_name = "FILE", required = true)]
    configurations: Vec<PathBuf>,

    /// The world: mail, hosts and agents
    #[arg(short = 'w', long = "world", value_name = "FILE")]
    world: PathBuf,

    /// The ZENV file with the variables of the configurations
    #[arg(short = 'Z', long = "zenv", value_name = "FILE")]
    zenv: Option<PathBuf>,

    /// Seed of the random numbers: the same seed gives the same output
    #[arg(short = 's', long = "seed", value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Virtual time to simulate; 6 hours unless the world sets it
    #[arg(short = 'H', long = "hours", value_name = "HOURS")]
    hours: Option<f64>,

    /// Maximum number of agents started per second
    #[arg(short = 'R', long = "fork-rate", value_name = "NUMBER", default_value_t = 30)]
    fork_rate: u32,

    /// Print everything as JSON instead of tables
    #[arg(short = 'j', long = "json")]
    json: bool,

    /// Draw queues and agents over time into this file, as SVG
    #[arg(short = 'p', long = "plot", value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Print the speed of the simulation
    #[arg(short = 'v', long = "verbose")]
    verbose: bool,

    /// Maximum line length of tables
    ///
    /// By default, lines fit the terminal. Elsewhere their length has no limit.
    #[arg(long = "width", value_name = "COLUMNS")]
    width: Option<usize>,
}

/// Runs the subcommand.
pub fn run(options: &RunOptions, out: &mut impl Write) -> Result<(), SchedsimError> {
    let text = outcome(options).map_err(SchedsimError::Other)?;
    let text = if options.json { printable::json(&text) } else { text };
    Ok(out.write_all(text.as_bytes())?)
}

/// Runs the simulations and formats the results.
fn outcome(options: &RunOptions) -> Result<String, String> {
    let world = World::load(&options.world)?;
    let length = length(options, &world)?;
    let zenv = options.zenv.as_ref().map(|path| Zenv::read(path)).transpose();
    let zenv = zenv.map_err(|error| format!("the ZENV file cannot be read: {error}"))?;
    let context = context(zenv.unwrap_or_default());
    let mut summaries = Vec::new();
    for path in &options.configurations {
        let config = load(path, &context)?;
        let begun = Instant::now();
        let summary = simulate(options, &path.display().to_string(), config, &world, length);
        if options.verbose {
            print_speed(&summary, begun.elapsed());
        }
        summaries.push(summary);
    }
    if let Some(path) = &options.plot {
        let plot = plot::svg(&summaries).map_err(|error| format!("the plot: {error}"))?;
        fs::write(path, plot).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if options.json {
        return Ok(summary::json(&summaries));
    }
    let columns = Term::stdout().size_checked().map(|(_, columns)| columns.into());
    Ok(table::text(&summaries, options.width.or(columns)))
}

fn length(options: &RunOptions, world: &World) -> Result<Duration, String> {
    let default = world.length.map_or(DEFAULT_HOURS * 3600.0, |length| length.0.as_secs_f64());
    let seconds = options.hours.map_or(default, |hours| hours * 3600.0);
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    if length < Duration::from_secs(1) || seconds > 366.0 * 86_400.0 {
        return Err("the time must be at least a second and at most a year".to_string());
    }
    Ok(length)
}

/// No agents are started, so the configuration's users and groups need not exist here.
fn context(zenv: Zenv) -> ConfigContext {
    ConfigContext {
        zenv,
        is_root: true,
        effective_user: 0,
        effective_group: 0,
        find_id: Arc::new(|_, _| Ok(Some(0))),
    }
}

fn load(path: &Path, context: &ConfigContext) -> Result<Rc<Config>, String> {
    let loaded = Config::load(path, context).map_err(|diagnostics| {
        format!("the configuration cannot be used\n{}", crate::lines(&diagnostics))
    })?;
    Ok(Rc::new(loaded.config))
}

fn simulate(
    options: &RunOptions,
    name: &str,
    config: Rc<Config>,
    world: &World,
    length: Duration,
) -> Summary {
    let settings = Settings { fork_rate: options.fork_rate.max(1), ..Settings::default() };
    let setup = SimulationSetup {
        delays: world.agents.delays(),
        agent_faults: world.agents.faults(),
        ..SimulationSetup::new(options.seed, START, settings)
    };
    let mut traffic = Traffic::new(world, START, options.seed);
    let statistics = Statistics::new(START);
    let mut simulation = Simulation::new(setup, world.hosts(START), config, statistics);
    simulation.start();
    let end = START + length;
    let interval = length / SAMPLE_COUNT;
    let progress = Progress::of_simulation(name, length);
    let mut next_sample = START;
    loop {
        let mail = traffic.next_time().filter(|time| *time < end);
        let stop = mail.unwrap_or(end).min(next_sample).min(end);
        simulation.run_until(stop);
        progress.set_time(stop.since(START));
        if next_sample <= stop {
            let time = simulation.at().wall;
            if let Some((core, statistics)) = simulation.core_and_observer() {
                statistics.take_sample(core, time);
            }
            next_sample += interval;
        }
        if mail == Some(stop) {
            let (number, text) = traffic.take();
            simulation.submit(SpoolName::plain(HashFolder::TOP, number), text, true, true);
        } else if stop >= end {
            break;
        }
    }
    if let Some((core, statistics)) = simulation.core_and_observer() {
        statistics.end(core);
    }
    Summary::new(name, options.seed, length, &world.mail, &simulation.observer)
}

fn print_speed(summary: &Summary, took: Duration) {
    let seconds = took.as_secs_f64();
    let rate = summary.totals.results.delivered as f64 / seconds.max(1e-9);
    printable::print_to_stderr(format_args!(
        "{}: {} deliveries in {seconds:.2} s, {rate:.0} a second",
        summary.configuration, summary.totals.results.delivered
    ));
}
