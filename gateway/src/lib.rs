//! The data plane: one port that takes every request of every service and brings it to a replica.
//!
//! ```text
//!   HTTP/1.1 ─┐                                                     ┌─► replica (HTTP/1.1, pooled)
//!   HTTP/2   ─┼─► route ─► split ─► desk (queue, credits) ─► send ──┤
//!   gRPC     ─┘                       ▲ wake, probe                 └─► replica (HTTP/2)
//! ```
//!
//! Bodies are bytes here: only `batching` looks into them, where a route asks for it. `route`, `split`,
//! `desk`, `credits`, `shares`, `deadline` and `mirror::decide` are values without clock, luck or IO; what
//! surrounds them is thin.

mod batching;
mod body;
mod clock;
mod codec;
mod context;
mod counters;
mod deadline;
mod describe;
mod error;
mod forward;
mod gateway;
mod headers;
mod metrics;
mod options;
mod protocol;
mod proxy;
mod queue;
mod report;
mod router;
mod server;
mod state;
mod upstream;

pub use error::GatewayError;
pub use gateway::Gateway;
pub use options::{Options, Scope};
