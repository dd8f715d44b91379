//! The end of each run: failures are over, agents deliver all their mail, disks have room. No mail
//! may be left.

use super::configurations::configuration;
use super::world::World;
use std::collections::BTreeSet;
use zsched_core::{AgentEnd, AgentId, Event, Order, RereadResult};
use zsched_spool::report::UnreportedRest;

/// Maximum number of rounds, in each of which all pending actions are answered.
const MAX_ROUNDS: usize = 3000;

/// Runs until all mail is delivered, unless the settings prevent that.
pub fn finish_run(mut world: World) {
    let settings = world.core.view().settings();
    let may_deliver = !settings.frozen && settings.selection.is_none();
    world.end_trouble();
    world.send_event(Event::InitialScanDone);
    world.send_event(Event::Configured(configuration(0)));
    world.order(Order::ReleaseAll);
    make_all_due(&mut world);
    for _ in 0..MAX_ROUNDS {
        let acted = world.check_once(|world| answer(world) | work(world));
        if acted {
            continue;
        }
        let is_idle = world.model.messages.is_empty() && world.model.orders.is_empty();
        if is_idle && !world.core.view().has_unwritten() {
            break;
        }
        let Some(next) = world.core.next_wakeup() else { break };
        world.pass_to(next.max(world.now));
    }
    world.dump();
    if !may_deliver || world.is_draining {
        return;
    }
    let left: Vec<u64> = world.model.messages.keys().copied().collect();
    let dump = String::from_utf8_lossy(&world.dump()).into_owned();
    assert!(left.is_empty(), "{left:?} are not delivered:\n{dump}");
    let totals = world.core.view().totals();
    assert_eq!((totals.messages, totals.vertices, totals.recipients), (0, 0, 0), "{dump}");
    assert!(!world.core.view().has_unwritten());
    assert!(world.model.orders.is_empty(), "orders without an answer: {:?}", world.model.orders);
}

/// Makes all mail due. Agents may have put off hosts until the year 2262.
fn make_all_due(world: &mut World) {
    let groups = world.model.messages.values().flat_map(|message| &message.arrival.groups);
    let hosts: BTreeSet<_> = groups.map(|group| group.host.clone()).collect();
    for host in hosts {
        world.send_event(Event::Etrn(&host));
    }
}

/// Answers all pending actions of the core. Returns true if there were any.
fn answer(world: &mut World) -> bool {
    let (notes, removals) = (world.model.notes.clone(), world.model.removals.clone());
    let (rereads, reports) = (world.model.rereads.clone(), world.model.reports.clone());
    let is_asked = !world.model.unstored_overrides.is_empty() || !reports.is_empty();
    let acted = is_asked || !(notes.is_empty() && removals.is_empty() && rereads.is_empty());
    world.report_stored(Ok(()));
    for ticket in notes {
        world.noted(ticket, Ok(false));
    }
    for ticket in reports {
        world.reported(ticket, Ok(UnreportedRest::default()));
    }
    for number in removals {
        world.removed(number, Ok(()));
    }
    for name in rereads {
        let message = world.model.messages.get(&name.number());
        let outcome = message.map_or(RereadResult::Gone, |message| {
            RereadResult::Read(Box::new(message.again(|_| false)))
        });
        world.read_again(name.number(), outcome);
    }
    acted
}

/// Lets each agent do one thing. Returns true if there was anything to do.
fn work(world: &mut World) -> bool {
    let agents: Vec<AgentId> = world.model.agents.keys().copied().collect();
    let mut acted = false;
    for agent in agents {
        let Some(puppet) = world.model.agents.get(&agent) else { continue };
        let is_running = puppet.is_running;
        if !puppet.pending_input.is_empty() {
            if !is_running {
                world.starts(agent, 7);
            }
            world.work(agent, "ok3", usize::MAX);
            acted = true;
        } else if puppet.is_ending {
            world.ends(agent, AgentEnd::Exited(0));
            acted = true;
        }
    }
    acted
}
