//! Tests of the definitions on the API server of `make test-kube`, which has applied them with kubectl.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

mod accepted;
mod definitions;
mod kubectl;
mod refused;
