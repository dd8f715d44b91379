//! What the orders of operators change.
//!
//! [`order`] has all orders. A hold, a limit or a removal that stays in force is an *override*.

pub mod order;

pub mod overrides;

mod hold;
mod limit;
mod pending_removal;
mod remove;

mod etrn;

pub mod dry_run;
pub mod select;
