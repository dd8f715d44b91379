//! Settings of a clause that make others of it useless.

use super::clause::{Clause, JobOrder};
use super::units::Interval;

type Limit = fn(&Clause) -> Option<u32>;

/// Limits on agents, the narrower before the wider.
const LIMITS: [(&str, Limit); 4] = [
    ("maxthr", |clause| Some(clause.max_thread)),
    ("maxring", |clause| clause.max_ring),
    ("maxchannel", |clause| clause.max_channel),
    ("maxta", |clause| clause.max_agents),
];

/// A clause is checked only if it sets one of these keywords.
pub(crate) const KEYWORDS: [&str; 9] = [
    "maxthr",
    "maxring",
    "maxchannel",
    "maxta",
    "expiry",
    "interval",
    "retries",
    "job-order",
    "slot-cost",
];

/// Warnings about an effective clause.
pub(crate) fn warnings(clause: &Clause) -> Vec<String> {
    let is_set = |name: &str| clause.lines.contains_key(name);
    let mut warnings = Vec::new();
    for (index, (narrow, limit)) in LIMITS.iter().enumerate() {
        for (wide, bound) in &LIMITS[index + 1..] {
            if let (Some(limit), Some(bound)) = (limit(clause), bound(clause))
                && is_set(narrow)
                && is_set(wide)
                && limit > bound
            {
                warnings.push(format!("{narrow}={limit} is more than {wide}={bound} permits"));
            }
        }
    }
    if clause.job_order == JobOrder::Random && clause.slot_cost > 0 {
        warnings.push("job-order=random has no effect with slot-cost".to_string());
    }
    let factor = clause.retries.first().copied().unwrap_or(1);
    let first_retry = clause.interval.saturating_mul(factor);
    if let Some(expiry) = clause.expiry.filter(|expiry| *expiry < first_retry) {
        warnings.push(format!(
            "mail expires after {} (expiry) and so is not tried a second time, after {} (interval, \
             retries)",
            Interval(expiry),
            Interval(first_retry)
        ));
    }
    warnings
}
