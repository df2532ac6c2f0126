//! What every process of Weir needs: logs, ports, one metrics registry, the port that serves it, and an
//! orderly end.
//!
//! ```text
//!   telemetry ── logs, level changeable while running
//!   registry  ── one registry, printed for Prometheus ──► admin (/metrics, /health)
//!   drain     ── signal ──► begun ──delay──► closed ──► deadline
//!   socket    ── bind ──► accept, so many at once ──► converse ──► close
//! ```

pub mod admin;
pub mod byte_budget;
pub mod drain;
pub mod http2;
pub mod process;
pub mod registry;
pub mod socket;
pub mod telemetry;
