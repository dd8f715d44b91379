//! Tests of the program `router`, on spools of their own.

mod support;
mod traces;
