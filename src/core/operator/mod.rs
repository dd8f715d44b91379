//! What the orders of operators change.
//!
//! [`order`] has all orders. A hold, a limit or a removal that stays in force is an *override*.

pub mod order;

pub mod overrides;

mod hold;
mod limit;
mod message_orders;
mod pending_removal;
mod priority;

pub(crate) mod etrn;

pub mod dry_run;
pub mod select;
