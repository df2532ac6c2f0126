//! The controller over a real API server, run by `make test-kube`. Each test has its own namespace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../tests/kubernetes/api_server.rs"]
mod api_server;
mod chart;
mod components;
mod connection;
mod declared;
mod drift;
mod events;
mod failures;
mod gateway_certificates;
mod golden;
mod kills;
mod kserve;
mod leaders;
mod lifecycle;
mod models;
mod names;
mod orphans;
mod replica_certificates;
mod requests;
mod restarts;
mod rules;
mod runtime_change;
mod runtime_gone;
mod scheduling;
mod webhook;
mod world;
