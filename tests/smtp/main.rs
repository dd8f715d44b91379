//! Tests of the agent `smtp` against a scripted peer and against Debian's servers.

mod bytes;
mod extensions;
mod lmtp;
mod patterns;
mod peer;
mod reuse;
mod support;
mod truth;
