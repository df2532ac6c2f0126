//! The cluster over the API server of `make test-kube`, whose nodes are simulated.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../tests/kubernetes/api_server.rs"]
mod api_server;
mod contract;
mod entries;
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
mod token_reviews;
