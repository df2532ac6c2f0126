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

mod answer;
mod batching;
mod buffers;
mod claims;
mod clock;
mod codec;
mod credits;
mod deadline;
mod departing;
mod describe;
mod desk;
mod error;
mod gateway;
mod headers;
mod life;
mod line;
mod listen;
mod local;
mod metrics;
mod mirror;
mod options;
mod outgoing;
mod probe;
mod receive;
mod report;
mod route;
mod shares;
mod split;
mod upstream;
mod view;
mod wire;

pub use error::GatewayError;
pub use gateway::Gateway;
pub use options::Options;
pub use route::Scope;
