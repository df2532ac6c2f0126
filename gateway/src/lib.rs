//! The data plane: takes every request of every service and brings it to a replica.
//!
//! ```text
//!   HTTP/1.1 ─┐                                                          ┌─► replica (HTTP/1.1, pooled)
//!   HTTP/2   ─┼─► server ─► proxy: route ─► buffer ─► queue ─► forward ──┤
//!   gRPC     ─┘                                        ▲ wake, probe     └─► replica (HTTP/2)
//! ```
//!
//! `proxy` is the whole life of a request. Arrows run one way: server → proxy → {router, body, queue, forward, batching} →
//! upstream. Bodies are opaque bytes: only `batching` parses them, where a route asks for it. `router::matcher`,
//! `router::split`, `router::mirror::decide`, `queue::dispatcher` and `deadline` are values without clock or IO.

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
mod port;
mod probe_services;
mod protocol;
mod proxy;
mod queue;
mod report;
mod router;
mod server;
mod state;
mod upstream;

pub use gateway::Gateway;
pub use options::{Options, Scope};
pub use port::{Encryption, Port};
