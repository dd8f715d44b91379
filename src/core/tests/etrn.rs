//! ETRN, and the index of threads by host.

use super::*;

#[test]
fn etrn_wakes_only_threads_of_host_on_all_channels() {
    let mut world = World::new("*/*\n\tinterval=1h maxta=0\n\tqueueonly command=x\n");
    world.message(1, &["smtp/a.x", "local/a.x", "smtp/b.x", "smtp/aa.x"]);
    world.message(2, &["smtp/a.x"]);
    let waits = |world: &World, to: &str| {
        let (channel, host) = to.split_once('/').expect("channel/host");
        let thread = world.core.queue.threads().find(channel.as_bytes(), host.as_bytes());
        !world.core.queue.thread(thread.expect("it is queued")).waiting.is_empty()
    };
    world.handle(Event::Etrn(b"a.x"));
    let waiting = ["smtp/a.x", "local/a.x", "smtp/b.x", "smtp/aa.x"].map(|to| waits(&world, to));
    assert_eq!(waiting, [false, false, true, true]);
}

#[test]
fn etrn_during_initial_scan_includes_mail_found_later() {
    let mut world = World::new("*/*\n\tqueueonly command=x\n");
    world.message(1, &["smtp/a.x"]);
    let mut request = arrival(9, Vec::new(), START, START);
    request.etrn_hosts = vec![b"a.x"[..].into(), b"b.x"[..].into()];
    world.handle(Event::Arrived(Box::new(request)));
    world.message(2, &["smtp/b.x", "smtp/c.x"]);
    let waits = |world: &World, host: &[u8]| {
        let thread = world.core.queue.threads().find(b"smtp", host).expect("it is queued");
        !world.core.queue.thread(thread).waiting.is_empty()
    };
    let waiting = |world: &World| [b"a.x", b"b.x", b"c.x"].map(|host| waits(world, host));
    assert_eq!(waiting(&world), [false, true, true]);
    world.handle(Event::InitialScanDone);
    assert_eq!(waiting(&world), [false, false, true]);
}

#[test]
fn host_index_examines_only_threads_of_host() {
    let mut world = World::new("*/*\n\tcommand=x\n");
    world.is_checked = false;
    for number in 1..=2000 {
        world.message(number, &[&format!("smtp/h{number}.x"), &format!("local/h{number}.x")]);
    }
    let threads = world.core.queue.threads();
    assert_eq!((threads.len(), threads.of_host(b"h7.x").count()), (4000, 2));
    assert!(threads.host_candidates(b"h7.x") < 10, "hosts with the same hash are few");
    assert_eq!(threads.of_host(b"no.x").count(), 0);
}

#[test]
fn host_index_is_rebuilt_after_checkpoint() {
    let mut world = World::new("*/*\n\tcommand=x\n");
    world.message(1, &["smtp/a.x", "smtp/b.x"]);
    let kept = postcard::to_stdvec(&world.core.checkpoint()).expect("it can be written");
    let kept = postcard::from_bytes(&kept).expect("it can be read");
    let core = Scheduler::restore(kept, Rc::new(config("*/*\n\tcommand=x\n"))).expect("it fits");
    core.check_invariants();
    assert_eq!(core.queue.threads().of_host(b"b.x").count(), 1);
}
