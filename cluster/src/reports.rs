//! The gateways' reports, as others read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::Report;

/// The latest report of every gateway that is up, by the gateway's name.
pub type LatestReports = BTreeMap<Arc<str>, Arc<Report>>;

/// The latest reports of all gateways; read by autoscaler and controller.
pub trait Reports: Send + Sync {
    /// The latest reports, and every change. Reports count from a gateway's start, so one that was
    /// skipped is contained in the next.
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>>;
}
