//! The definitions on a real API server: that of `make test-kube`, which has applied them as people do.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

mod accepted;
mod definitions;
mod kubectl;
mod refused;
