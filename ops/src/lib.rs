//! Parts that every Weir process shares: logs, ports, the metrics registry, the admin port that serves it, and graceful
//! shutdown.
//!
//! ```text
//!   telemetry   ── logs, level changeable while running
//!   registry    ── one registry, printed for Prometheus ──► admin (/metrics, /health)
//!   drain       ── signal ──► begun ──delay──► closed ──► deadline
//!   exit        ── the end of a process whose threads are still at work
//!   socket      ── bind ──► accept, up to a limit ──► serve ──► close
//!   byte_budget ── bytes that all requests may hold together
//!   http2       ── windows and other limits of HTTP/2
//!   open_files  ── the limit on open files, raised
//!   failure_log ── of failures that come with every request one line a minute
//!   known_hosts ── hosts that a port of this machine answers to
//!   request_head ── requests that can be read in one way only
//!   header_names ── which headers a message has
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
