//! The data plane: accepts every request of every service and forwards it to a replica.
//!
//! ```text
//!   HTTP/1.1 ─┐                                                          ┌─► replica (HTTP/1.1, pooled)
//!   HTTP/2   ─┼─► server ─► proxy: route ─► buffer ─► queue ─► forward ──┤
//!   gRPC     ─┘                                        ▲ wake, probe     └─► replica (HTTP/2)
//! ```
//!
//! `proxy` shows a request's whole way. Imports run one way: server → proxy → {router, body, queue, health, forward, batching}
//! → upstream. Bodies are opaque bytes; only `batching` parses them, if a route asks for batches. `router::matcher`,
//! `router::split`, `router::mirror::decide`, `queue::dispatcher` and `deadline` are values without clock or IO.

mod access;
mod body;
mod certificates;
mod clock;
mod codec;
mod context;
mod engine_queue;
mod error;
mod gateway;
mod options;
mod peers;
mod pipeline;
mod port;
mod queue;
mod rates;
mod replica_tls;
mod router;
mod server;
mod state;
mod telemetry;
mod upstream;
mod wire;

pub use access::AccessControl;
pub use certificates::{AuthorityError, CertificateFiles, CertificateFilesError, ClientAuthority};
pub use gateway::Gateway;
pub use options::{Options, Scope};
pub use peers::{PeerTls, PeerTlsError, PeerTrust};
pub use port::{Encryption, Port, ServerTls};
pub use replica_tls::{ReplicaTls, ReplicaTlsError};
