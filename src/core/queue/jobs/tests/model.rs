//! Random work, compared with a model; and the bound on preemption's cost.
//!
//! The model keeps a plain list and looks at everything each time.

use crate::queue::jobs::tests::{Rules, START, thread};
use crate::queue::jobs::{Jobs, MAX_RECLASSIFIED_ENTRIES, NewJob};
use crate::queue::message::MessageId;
use crate::queue::vertex::VertexId;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_format::time::Timestamp;

const SEEDS: u64 = 60;
const STEPS: usize = 250;
const THREADS: usize = 8;
/// Maximum size with a class of its own.
const LARGEST: usize = 14;

/// A job of the model.
struct Plain {
    message: usize,
    arrival: Timestamp,
    /// Thread and vertex of its due entries.
    entries: Vec<(usize, usize)>,
    /// Maximum number of further entries.
    unread: usize,
    size: usize,
    selected: i64,
    spent: i64,
    children: i64,
    /// Its parent, the entries that it has paid for, and those used.
    prepayment: Option<(usize, i64, i64)>,
    has_preempted: bool,
}

/// The list of jobs, in order.
struct Model {
    rules: Rules,
    list: Vec<Plain>,
    ready: BTreeSet<usize>,
    last: Option<usize>,
}

impl Plain {
    fn max_left(&self) -> usize {
        self.entries.len() + self.unread
    }
}

impl Model {
    fn position(&self, message: usize) -> Option<usize> {
        self.list.iter().position(|job| job.message == message)
    }

    fn is_selectable(&self, job: &Plain) -> bool {
        job.entries.iter().any(|(thread, _)| self.ready.contains(thread))
    }

    /// Returns the next job, after preemption.
    fn next(&mut self, now: Timestamp) -> Option<usize> {
        let current = self.list.iter().position(|job| self.is_selectable(job))?;
        let Some(candidate) = self.candidate(now, current) else {
            return Some(self.list[current].message);
        };
        let entries = self.list[candidate].max_left() as i64;
        let parent = &mut self.list[current];
        parent.spent += entries * i64::from(self.rules.cost);
        parent.children += 1;
        let prepayment = Some((parent.message, entries, 0));
        let mut job = self.list.remove(candidate);
        let message = job.message;
        (job.prepayment, job.has_preempted) = (prepayment, true);
        self.list.insert(current, job);
        Some(message)
    }

    fn candidate(&self, now: Timestamp, current: usize) -> Option<usize> {
        let (cost, minimum) = (i64::from(self.rules.cost), i64::from(self.rules.minimum));
        let job = &self.list[current];
        let (left, available) = (job.entries.len() as i64, job.selected - job.spent);
        let total = job.selected + job.max_left() as i64;
        if cost == 0 || available <= 0 || total < minimum * cost {
            return None;
        }
        let most = (left + available) / cost;
        let mut best: Option<(usize, f64)> = None;
        for size in 1..=LARGEST.min(most.max(0) as usize) {
            let fits = |index: &&usize| {
                let job = &self.list[**index];
                **index != current && job.children == 0 && job.max_left() as i64 <= most
            };
            let visible = self.visible(size);
            let Some(index) = visible.iter().take(4).find(fits) else {
                continue;
            };
            let age = now.since(self.list[*index].arrival).as_secs_f64() + 1.0;
            let score = age / size as f64;
            if best.is_none_or(|(_, best)| score > best + 1e-9) {
                best = Some((*index, score));
            }
        }
        let (best, _) = best?;
        let entries = self.list[best].max_left() as i64;
        let percent = i64::from(100 - self.rules.discount);
        let has = (available + i64::from(self.rules.loan) * cost) * 100;
        (has >= entries * cost * percent).then_some(best)
    }

    /// Jobs of a size that are its first in a ready thread.
    fn visible(&self, size: usize) -> BTreeSet<usize> {
        let first = |thread: &usize| {
            self.list.iter().position(|job| {
                let is_there = job.entries.iter().any(|(of, _)| of == thread);
                !job.has_preempted && job.size == size && is_there
            })
        };
        self.ready.iter().filter_map(first).collect()
    }

    fn select(&mut self, message: usize, entry: (usize, usize)) {
        if let Some(last) = self.last.replace(message).filter(|last| *last != message)
            && let Some(index) = self.position(last)
        {
            let job = &mut self.list[index];
            let is_small = job.entries.len() <= MAX_RECLASSIFIED_ENTRIES as usize;
            if !job.has_preempted && job.max_left() <= job.size / 2 && is_small {
                job.size = job.max_left();
            }
        }
        let index = self.position(message).expect("the job is there");
        self.list[index].selected += 1;
        let mut is_extra = None;
        if let Some((parent, paid, used)) = &mut self.list[index].prepayment {
            *used += 1;
            is_extra = (*used > *paid).then_some(*parent);
        }
        if let Some(parent) = is_extra.and_then(|parent| self.position(parent)) {
            self.list[parent].spent += i64::from(self.rules.cost);
        }
        self.leave(message, entry);
    }

    fn leave(&mut self, message: usize, entry: (usize, usize)) {
        let index = self.position(message).expect("the job is there");
        let job = &mut self.list[index];
        job.entries.retain(|other| *other != entry);
        if !job.entries.is_empty() {
            return;
        }
        let job = self.list.remove(index);
        if let Some((parent, paid, used)) = job.prepayment
            && let Some(parent) = self.position(parent)
        {
            let parent = &mut self.list[parent];
            parent.spent -= (paid - used).max(0) * i64::from(self.rules.cost);
            parent.children -= 1;
        }
    }
}

/// A message that arrives now.
fn new_job(arrival: Timestamp, unread: usize) -> NewJob {
    NewJob { arrival, sequence: 0, unread: unread as u32 }
}

fn random_rules(random: &mut Rng) -> Rules {
    Rules {
        cost: random.u32(0..6),
        discount: [0, 50, 50, 100][random.usize(0..4)],
        loan: random.u32(0..4),
        minimum: random.u32(0..4),
    }
}

fn entries_of(message: MessageId, jobs: &Jobs) -> BTreeSet<(usize, usize)> {
    let of_message = jobs.all_entries().filter(|(job, _, _)| jobs.jobs[*job].message == message);
    of_message.map(|(_, thread, vertex)| (thread.index(), vertex.index())).collect()
}

#[test]
fn jobs_random_work_matches_a_plain_list() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let rules = random_rules(&mut random);
        let mut model = Model { rules, list: Vec::new(), ready: BTreeSet::new(), last: None };
        let mut jobs = Jobs::new(rules);
        let (mut now, mut messages, mut vertices) = (START, 0, 0);
        for step in 0..STEPS {
            let at = format!("seed {seed}, step {step}");
            now += Duration::from_secs(1);
            match random.u32(0..12) {
                0 | 1 => {
                    messages += 1;
                    let size = random.usize(1..=LARGEST);
                    let size = if random.bool() { size } else { size.min(3) };
                    let unread = if random.bool() { 0 } else { random.usize(0..=LARGEST - size) };
                    let entries: Vec<(usize, usize)> = (0..size)
                        .map(|index| (random.usize(0..THREADS), vertices + index))
                        .collect();
                    vertices += size;
                    let ids: Vec<_> = entries
                        .iter()
                        .map(|(of, vertex)| (thread(*of), VertexId::from_index(*vertex)))
                        .collect();
                    jobs.join(MessageId::from_index(messages), new_job(now, unread), &ids);
                    model.list.push(Plain {
                        message: messages,
                        arrival: now,
                        size: size + unread,
                        entries,
                        unread,
                        selected: 0,
                        spent: 0,
                        children: 0,
                        prepayment: None,
                        has_preempted: false,
                    });
                }
                2..=4 => {
                    let number = random.usize(0..THREADS);
                    let is_ready = random.bool();
                    jobs.set_ready(thread(number), is_ready);
                    match is_ready {
                        true => model.ready.insert(number),
                        false => model.ready.remove(&number),
                    };
                }
                5 if !model.list.is_empty() => {
                    let job = &model.list[random.usize(0..model.list.len())];
                    let entry = job.entries[random.usize(0..job.entries.len())];
                    let message = job.message;
                    let vertex = VertexId::from_index(entry.1);
                    jobs.leave(MessageId::from_index(message), thread(entry.0), vertex);
                    model.leave(message, entry);
                }
                6 if !model.list.is_empty() => {
                    let job = random.usize(0..model.list.len());
                    let job = &mut model.list[job];
                    job.unread = random.usize(0..=job.unread);
                    if job.max_left() <= job.size / 2 {
                        job.size = job.max_left();
                    }
                    let message = MessageId::from_index(job.message);
                    jobs.expect(message, job.unread as u32);
                }
                _ => {
                    let preferred = random.usize(0..THREADS);
                    let chosen = jobs.choose(now, Some(thread(preferred)));
                    let expected = model.next(now);
                    let Some(message) = expected else {
                        assert_eq!(chosen, None, "{at}");
                        continue;
                    };
                    let (of, vertex) =
                        chosen.unwrap_or_else(|| panic!("{at}: no vertex is chosen"));
                    let entry = (of.index(), vertex.index());
                    let id = MessageId::from_index(message);
                    let entries = entries_of(id, &jobs);
                    assert!(entries.contains(&entry), "{at}: an entry of message {message}");
                    assert!(model.ready.contains(&entry.0), "{at}: a thread that is busy");
                    let has_preferred = entries.iter().any(|(of, _)| *of == preferred);
                    let is_warm = has_preferred && model.ready.contains(&preferred);
                    assert!(!is_warm || entry.0 == preferred, "{at}: the warm connection");
                    jobs.select(id, of, vertex);
                    model.select(message, entry);
                }
            }
            jobs.check();
            let order: Vec<usize> = jobs.in_order().iter().map(|job| job.message.index()).collect();
            let expected: Vec<usize> = model.list.iter().map(|job| job.message).collect();
            assert_eq!(order, expected, "{at}");
            for (job, plain) in jobs.in_order().iter().zip(&model.list) {
                assert_eq!(job.available(), plain.selected - plain.spent, "{at}: slots");
            }
        }
    }
}

/// The bound of the document.
///
/// "The inflation factor is not worse than k/(k-1) no matter how many recursive preemptions
/// happen."
#[test]
fn preemption_inflation_stays_within_bound() {
    let mut tightest = 0.0f64;
    for seed in 0..SEEDS / 3 {
        let mut random = Rng::with_seed(seed);
        let rules = Rules { cost: random.u32(2..6), ..random_rules(&mut random) };
        let mut jobs = Jobs::new(rules);
        let mut begun: BTreeMap<MessageId, (usize, usize)> = BTreeMap::new();
        let (mut now, mut messages) = (START, 0);
        let mut of_vertex: Vec<MessageId> = Vec::new();
        for slot in 0..2000 {
            now += Duration::from_millis(100);
            if random.u32(0..12) == 0 || jobs.is_empty() {
                messages += 1;
                let size = 1 + (400.0 * random.f64().powi(5)) as usize;
                let entries: Vec<_> = (0..size)
                    .map(|index| {
                        let number = of_vertex.len() + index;
                        (thread(number), VertexId::from_index(number))
                    })
                    .collect();
                let message = MessageId::from_index(messages);
                of_vertex.resize(of_vertex.len() + size, message);
                jobs.join(message, new_job(now, 0), &entries);
                entries.iter().for_each(|(thread, _)| jobs.set_ready(*thread, true));
            }
            let (of, vertex) = jobs.choose(now, None).expect("there is work");
            let message = of_vertex[vertex.index()];
            let left = jobs.jobs[jobs.by_message[&message]].left as usize;
            let (first, size) = *begun.entry(message).or_insert((slot, left));
            jobs.select(message, of, vertex);
            jobs.set_ready(of, false);
            if left == 1 {
                let took = (slot + 1 - first) as f64;
                let bound = size as f64 * f64::from(rules.cost) / f64::from(rules.cost - 1);
                assert!(took <= bound, "seed {seed}: {size} entries took {took}, {rules:?}");
                tightest = tightest.max(took / bound);
            }
        }
    }
    assert!(tightest > 0.9, "the test comes near the bound: {tightest}");
}
