//! Parts that every Weir process shares: logs, ports, the metrics registry, the admin port that serves it, and graceful
//! shutdown.
//!
//! ```text
//!   telemetry    ── logs, with a level that can change while running
//!   registry     ── one registry, printed for Prometheus ──► admin (/metrics, /health)
//!   drain        ── signal ──► begun ──delay──► closed ──► deadline
//!   exit         ── ends the process even if threads are still running
//!   socket       ── bind ──► accept, up to a limit ──► serve ──► close
//!   byte_budget  ── limit on the bytes that all requests hold together
//!   http2        ── windows and other limits of HTTP/2
//!   open_files   ── raises the limit on open files
//!   failure_log  ── limits repeated log lines about failed requests to one a minute
//!   known_hosts  ── hosts that a port of this machine answers to
//!   request_head ── refuses requests that two parsers could read differently
//!   header_names ── fast lookup of the headers that a message has
//! ```

pub mod admin;
pub mod byte_budget;
pub mod drain;
pub mod exit;
pub mod failure_log;
pub mod header_names;
pub mod http2;
pub mod known_hosts;
pub mod open_files;
mod process;
pub mod registry;
pub mod request_head;
pub mod socket;
pub mod telemetry;
