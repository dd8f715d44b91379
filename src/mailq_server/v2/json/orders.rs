//! `SHOW JSON ORDERS`: one object for each hold, limit and removal in force.

use super::seconds;
use crate::v2::rows::objects;
use crate::v2::task::{ReplyResult, SessionContext};
use zsched_core::AfterJob;
use zsched_core::overrides::{
    Author, Hold, LimitOverride, PendingRemoval, PriorityOverride, Scope,
};
use zsched_mailq_protocol::schema::OverrideStatus;

fn hold(hold: &Hold) -> OverrideStatus {
    OverrideStatus {
        reason: Some(hold.reason.clone()),
        ..status("hold", &hold.scope, &hold.author)
    }
}

fn limit(set: &LimitOverride) -> OverrideStatus {
    OverrideStatus {
        limit: Some(set.limit.keyword().to_string()),
        value: Some(u64::from(set.value)),
        until: set.until.map(seconds),
        ..status("limit", &set.scope, &set.author)
    }
}

fn removal(ending: &PendingRemoval) -> OverrideStatus {
    let kind = match ending.after_job {
        AfterJob::Expire => "expire",
        AfterJob::Reroute => "reroute",
        AfterJob::Usual | AfterJob::OneMoreTry | AfterJob::Delete => "delete",
    };
    status(kind, &Scope::Message(ending.message), &ending.author)
}

fn priority(set: &PriorityOverride) -> OverrideStatus {
    let level = zsched_format::priority::letter(set.priority);
    let reason = Some(format!("priority {level}"));
    OverrideStatus { reason, ..status("priority", &Scope::Message(set.message), &set.author) }
}

fn status(kind: &str, scope: &Scope, author: &Author) -> OverrideStatus {
    OverrideStatus {
        kind: kind.to_string(),
        scope: scope.words(),
        by: Some(author.name.clone()),
        since: Some(seconds(author.since)),
        ..OverrideStatus::default()
    }
}

/// An override in force.
#[derive(Clone, Copy)]
enum OverrideKey {
    /// A hold of destinations or a ring, by its index.
    Hold(usize),
    /// A hold of the message of this number.
    Message(u64),
    /// A limit, by its index.
    Limit(usize),
    /// The removal of the message of this number.
    Removal(u64),
    /// The priority of the message of this number.
    Priority(u64),
}

/// Answers the request.
pub(crate) fn answer(context: &SessionContext<'_>) -> ReplyResult {
    let all = context.scheduler.view().overrides();
    let keys = (0..all.holds.len())
        .map(OverrideKey::Hold)
        .chain(all.messages.keys().copied().map(OverrideKey::Message))
        .chain((0..all.limits.len()).map(OverrideKey::Limit))
        .chain(all.removals.keys().copied().map(OverrideKey::Removal))
        .chain(all.priorities.keys().copied().map(OverrideKey::Priority));
    Ok(objects(keys, |context, key| {
        let all = context.scheduler.view().overrides();
        match key {
            OverrideKey::Hold(index) => all.holds.get(index).map(hold),
            OverrideKey::Message(number) => all.messages.get(&number).map(hold),
            OverrideKey::Limit(index) => all.limits.get(index).map(limit),
            OverrideKey::Removal(number) => all.removals.get(&number).map(removal),
            OverrideKey::Priority(number) => all.priorities.get(&number).map(priority),
        }
    }))
}
