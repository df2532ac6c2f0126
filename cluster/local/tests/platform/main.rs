//! Tests with real child processes. The test binary itself serves as the replicas' server (see `server`) and as the
//! parent that is killed (see `parent`).

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test, as intended")]

mod contract;
mod failures;
mod parent;
mod platform;
mod pods;
mod replicas;
mod server;
