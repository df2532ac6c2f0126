//! Parts that every Weir process shares: logs, the metrics registry, the admin port that serves it, and graceful
//! shutdown.
//!
//! ```text
//!   telemetry    ── logs, with a level that can change while running
//!   registry     ── one registry, printed for Prometheus ──► admin (/metrics, /health)
//!   drain        ── signal ──► begun ──delay──► closed ──► deadline
//!   exit         ── ends the process even if threads are still running
//! ```

pub mod admin;
pub mod drain;
pub mod exit;
mod process;
pub mod registry;
pub mod telemetry;
