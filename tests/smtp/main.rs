//! Tests of the agent `smtp` against a scripted peer and against Debian's servers.

mod authentication;
mod bytes;
mod extensions;
mod lmtp;
mod patterns;
mod peer;
mod program;
mod reuse;
mod session;
mod sink;
mod support;
mod tls;
mod truth;
