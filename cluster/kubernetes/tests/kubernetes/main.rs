//! The cluster over a real API server: that of `make test-kube`, whose nodes only seem to be there.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

mod contract;
mod failures;
mod gateway;
mod gateway_view;
mod ownership;
mod revisions;
mod server;
