//! `schedsim replay FILE --cf OTHER`: compares another configuration on the same mail.
//!
//! Agents' reports depend on how they are fed, so the recording cannot be replayed as it is.
//! Instead a model of mail and agents is learned from it, and simulated under both configurations.
//! The column of the recorded configuration shows how accurate the simulation is.

use super::SchedsimError;
use super::agent_model::AgentModel;
use super::model_run;
use super::run_counters::RunCounters;
use std::io::Write;
use std::path::Path;
use zsched_core::{Action, Event, Scheduler};
use zsched_format::printable;
use zsched_recorder::{Recording, Replay, ReplayError, ReplayObserver, ReplayedEvent};

/// Learns the model and counts in the same pass.
#[derive(Default)]
struct ModelAndCounters {
    model: AgentModel,
    counters: RunCounters,
}

impl ReplayObserver for ModelAndCounters {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        self.model.before(told, event, core);
        self.counters.before(told, event, core);
    }

    fn after(&mut self, told: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        self.model.after(told, decided, core);
        self.counters.after(told, decided, core);
    }
}

/// Compares the configurations and prints the table.
pub(crate) fn run(
    path: &Path,
    other: &Path,
    json: bool,
    out: &mut impl Write,
) -> Result<(), SchedsimError> {
    let at = |problem: &dyn std::fmt::Display| {
        SchedsimError::Other(format!("{}: {problem}", path.display()))
    };
    let recording = Recording::open(path).map_err(|error| at(&error))?;
    let source = recording.header.source.clone();
    let lines = |errors: Vec<zsched_config::Diagnostic>| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        SchedsimError::Other(lines.join("\n"))
    };
    let config = source.read().map_err(lines)?;
    let other_config = source.read_with_context(other).map_err(lines)?;
    let begun = recording.header.started;
    let mut replay = Replay::new(recording).map_err(|error| at(&error))?;
    let settings = replay.core().settings().clone();
    let mut observers = ModelAndCounters::default();
    observers.model.begin(begun, replay.core());
    let there: Vec<u64> = replay.core().arrivals().map(|arrival| arrival.name.number()).collect();
    there.into_iter().for_each(|number| observers.counters.known(number, begun));
    let played = replay.run(&mut observers).map_err(|failure| match failure {
        ReplayError::Different(difference) => at(&format!("a decision differs\n{difference}")),
        other => at(&other),
    })?;
    let ModelAndCounters { model, counters: mut recorded } = observers;
    recorded.end(replay.core());
    let again = model_run::run(settings.clone(), config, &model, played.last);
    let otherwise = model_run::run(settings, other_config, &model, played.last);
    let columns = [
        ("recorded", recorded, 0),
        ("simulated", again.0, again.1),
        ("other", otherwise.0, otherwise.1),
    ];
    if json {
        let object = columns.iter().map(|(name, counters, guessed)| {
            let rows = rows(counters, *guessed).into_iter();
            let values = rows.map(|(name, value)| (name.replace(' ', "_"), value.into()));
            (name.to_string(), serde_json::Value::Object(values.collect()))
        });
        let object: serde_json::Map<String, serde_json::Value> = object.collect();
        let object = serde_json::Value::Object(object).to_string();
        writeln!(out, "{}", printable::json(&object))?;
    } else {
        write_table(path, other, source.file(), &columns, out)?;
    }
    Ok(())
}

fn rows(counters: &RunCounters, guessed: u64) -> Vec<(&'static str, Option<f64>)> {
    let count = |count: u64| Some(count as f64);
    vec![
        ("delivered", count(counters.delivered)),
        ("failed", count(counters.failed)),
        ("expired", count(counters.expired)),
        ("left in the queue", count(counters.left)),
        ("deferred attempts", count(counters.deferred)),
        ("delay 50%", counters.delay(50)),
        ("delay 90%", counters.delay(90)),
        ("delay 99%", counters.delay(99)),
        ("delay 100%", counters.delay(100)),
        ("agents started", count(counters.agents)),
        ("agents at a time", count(counters.max_agents)),
        ("jobs", count(counters.jobs)),
        ("outcomes made up", count(guessed)),
    ]
}

fn write_table(
    path: &Path,
    other: &Path,
    recorded: &Path,
    columns: &[(&str, RunCounters, u64); 3],
    out: &mut impl Write,
) -> Result<(), SchedsimError> {
    writeln!(out, "{}", path.display())?;
    writeln!(out, "  recorded   as it was, under {}", recorded.display())?;
    writeln!(out, "  simulated  the same mail under the same configuration")?;
    writeln!(out, "  other      the same mail under {}", other.display())?;
    writeln!(out)?;
    let names = columns.iter().map(|(name, ..)| *name);
    writeln!(out, "  {:<18}{}", "", names.map(|name| format!("{name:>12}")).collect::<String>())?;
    let all: Vec<_> =
        columns.iter().map(|(_, counters, guessed)| rows(counters, *guessed)).collect();
    for (index, (name, _)) in all[0].iter().enumerate() {
        let cell = |rows: &Vec<(&str, Option<f64>)>| match rows[index].1 {
            None => format!("{:>12}", "-"),
            Some(value) if name.starts_with("delay") => format!("{:>12}", format!("{value:.3} s")),
            Some(value) => format!("{value:>12.0}"),
        };
        writeln!(out, "  {name:<18}{}", all.iter().map(cell).collect::<String>())?;
    }
    Ok(())
}
