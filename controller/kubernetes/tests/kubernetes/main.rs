//! The controller over a real API server: `make test-kube`. Each test has a namespace of its own.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

#[path = "../../../../tests/kubernetes/api_server.rs"]
mod api_server;
mod chart;
mod connection;
mod declared;
mod drift;
mod events;
mod golden;
mod kills;
mod kserve;
mod leaders;
mod lifecycle;
mod names;
mod orphans;
mod requests;
mod restarts;
mod runtime_change;
mod runtime_gone;
mod scheduling;
mod webhook;
mod world;
