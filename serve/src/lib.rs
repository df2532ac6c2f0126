//! Ports and their connections: one stack under the gateway, the model server, the admin port and the ports that API
//! servers call. A defence against hostile clients is written here once, for all of them.
//!
//! ```text
//!   bind ──► accept, within the limits ──► stream ──► connection ──► requests ──► close
//!
//!   limits        ── connections, timeouts and minimum rates of a port
//!   places        ── connections and HTTP/2 streams that each client may have
//!   shares        ── units of a limit that each client may hold while others need some
//!   traffic       ── open requests and bytes of a connection, to detect that it is idle
//!   tunnel        ── connections that leave HTTP after a response with status 101
//!   http2, body   ── limits on frames, slow streams and slow bodies; detection of incomplete bodies
//!   byte_budget   ── bytes that all requests may hold together
//!   request_head, header_names, known_hosts ── refusal of ambiguous request heads and of unknown hosts
//! ```

mod accept;
mod bind;
mod body;
mod bounds;
mod clock;
mod connection;
pub mod failure_log;
pub mod header_names;
mod http2;
mod http_port;
mod keepalive;
pub mod known_hosts;
mod lifetime;
pub mod request_head;
mod response;
mod stream;
mod traffic;
mod tunnel;

pub use accept::Acceptor;
pub use bind::{PortUse, advice, bind};
pub use body::charged::charged;
pub use body::end::{BodyEnd, IncompleteBody};
pub use body::message_framing::MessageFraming;
pub use body::timed::{Stalled, TimedBody};
pub use body::unread::{AfterBody, EarlyResponse, linger};
pub use bounds::limits::ConnectionLimits;
pub use bounds::pace::{Pace, Upload};
pub use bounds::places::reserved::{ConnectionPlace, PlaceHandle, ReservedPlaces};
pub use bounds::shares::{HeldUnit, Holder, SharedLimit};
pub use bounds::{byte_budget, http2_limits, open_files};
#[cfg(feature = "tls")]
pub use connection::tls;
pub use http_port::{Http1Use, HttpOptions, HttpPort};
pub use http2::buffered::{BufferedSocket, Flushed, SocketFlusher};
pub use keepalive::Keepalive;
pub use response::{end_connection, leave_out_body};
pub use stream::Stream;
pub use traffic::{Exchange, GRACE, TrackedBody, Traffic};
pub use tunnel::{Duplex, Tunnel};

#[cfg(test)]
mod tests;
