//! Runs the real `weir` on a real API server with exactly the rights that the chart grants: `make test-kube`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may end at once, and looks at the clock to end at all"
)]

mod audit;
mod chart;
mod cluster;
mod process;
mod revocation;
mod roles;
