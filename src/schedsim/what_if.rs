//! `schedsim replay FILE --cf OTHER`: compares another configuration on the same mail.
//!
//! Agents' reports depend on how they are fed, so the recording cannot be replayed as it is.
//! Instead a model of mail and agents is learned from it, and simulated under both configurations.
//! The column of the recorded configuration shows how accurate the simulation is.

use super::SchedsimError;
use super::agent_model::AgentModel;
use super::model_run::{self, RunResults};
use super::run::summary::{Delay, RecipientResults, Totals};
use super::statistics::Statistics;
use std::io::Write;
use std::path::Path;
use zsched_config::Diagnostic;
use zsched_format::printable::{self, grouped};
use zsched_format::time::Timestamp;

/// Compares the configurations and prints the table.
pub(crate) fn run(
    path: &Path,
    other: &Path,
    json: bool,
    out: &mut impl Write,
) -> Result<(), SchedsimError> {
    let mut replay = super::open(path)?;
    let (source, begun) =
        (replay.recording().header.source.clone(), replay.recording().header.started);
    let problem = |errors: Vec<Diagnostic>| SchedsimError::Other(super::lines(&errors));
    let config = source.read().map_err(problem)?;
    let other_config = source.read_with_context(other).map_err(problem)?;
    let settings = replay.core().view().settings().clone();
    let (mut model, mut statistics) = (AgentModel::default(), Statistics::new(begun));
    model.begin(begun, replay.core());
    statistics.begin(replay.core());
    let observers = (&mut model, &mut statistics);
    let played = super::play(path, &mut replay, observers)?;
    statistics.end(replay.core());
    let recorded = RunResults { statistics, made_up: 0 };
    let period = (begun, played.last);
    let name = |path: &Path| path.display().to_string();
    let again = model_run::run(&name(source.file()), settings.clone(), config, &model, period);
    let otherwise = model_run::run(&name(other), settings, other_config, &model, period);
    let columns = [("recorded", recorded), ("simulated", again), ("other", otherwise)];
    let columns = columns.map(|(name, results)| (name, rows(&results, played.last)));
    if json {
        let object = columns.into_iter().map(|(name, rows)| {
            let values = rows.map(|(name, value)| (name.replace(' ', "_"), value.into()));
            (name.to_string(), serde_json::Value::Object(values.into_iter().collect()))
        });
        let object: serde_json::Map<String, serde_json::Value> = object.collect();
        let object = serde_json::Value::Object(object).to_string();
        writeln!(out, "{}", printable::json(&object))?;
    } else {
        write_table(path, other, source.file(), &columns, out)?;
    }
    Ok(())
}

/// The rows of a column; `None` is a delay without deliveries.
type Rows = [(&'static str, Option<f64>); 14];

fn rows(results: &RunResults, end: Timestamp) -> Rows {
    let totals = Totals::new(&results.statistics, end);
    let count = |count: u64| Some(count as f64);
    let RecipientResults { delivered, failed, expired, removed, queued, delay, .. } =
        totals.results;
    let seconds = |part: fn(Delay) -> f64| delay.map(part);
    [
        ("delivered", count(delivered)),
        ("failed", count(failed)),
        ("expired", count(expired)),
        ("removed by orders", count(removed)),
        ("deferred attempts", count(totals.deferrals)),
        ("left in the queue", count(queued)),
        ("delay 50%", seconds(|delay| delay.p50)),
        ("delay 90%", seconds(|delay| delay.p90)),
        ("delay 99%", seconds(|delay| delay.p99)),
        ("delay 100%", seconds(|delay| delay.longest)),
        ("agents started", count(totals.agents_started)),
        ("agents at a time", count(totals.max_agents as u64)),
        ("jobs", count(results.statistics.jobs)),
        ("outcomes made up", count(results.made_up)),
    ]
}

fn write_table(
    path: &Path,
    other: &Path,
    recorded: &Path,
    columns: &[(&str, Rows); 3],
    out: &mut impl Write,
) -> Result<(), SchedsimError> {
    writeln!(out, "{}", path.display())?;
    writeln!(out, "  recorded   as it was, under {}", recorded.display())?;
    writeln!(out, "  simulated  the same mail under the same configuration")?;
    writeln!(out, "  other      the same mail under {}", other.display())?;
    writeln!(out)?;
    let names = columns.iter().map(|(name, ..)| *name);
    writeln!(out, "  {:<18}{}", "", names.map(|name| format!("{name:>12}")).collect::<String>())?;
    for (index, (name, _)) in columns[0].1.iter().enumerate() {
        let cell = |(_, rows): &(&str, Rows)| match rows[index].1 {
            None => format!("{:>12}", "-"),
            Some(value) if name.starts_with("delay") => format!("{:>12}", format!("{value:.3} s")),
            Some(value) => format!("{:>12}", grouped(value as u64)),
        };
        writeln!(out, "  {name:<18}{}", columns.iter().map(cell).collect::<String>())?;
    }
    Ok(())
}
