//! The cluster over a real API server: that of `make test-kube`, whose nodes only seem to be there.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

#[path = "../../../../tests/kubernetes/api_server.rs"]
mod api_server;
mod contract;
mod failures;
mod gateway;
mod gateway_view;
mod lease;
mod meaning;
mod other_autoscalers;
mod ownership;
mod revisions;
mod scale_in;
mod server;
mod tenant;
