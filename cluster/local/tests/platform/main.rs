//! Real child processes: the test binary itself is the server (see `server`), and the parent that is
//! killed (see `parent`).

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may end at once")]

mod contract;
mod failures;
mod parent;
mod platform;
mod pods;
mod replicas;
mod server;
