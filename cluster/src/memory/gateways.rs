//! The gateways of one process, for platforms that do not discover gateways over a network.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{Gateway, LatestReports, Report, Reports};

/// The running gateways and the latest report of each. Clones share the set.
#[derive(Clone, Debug)]
pub struct Gateways {
    members: watch::Sender<Arc<[Gateway]>>,
    reports: watch::Sender<Arc<LatestReports>>,
}

/// A gateway's membership in the set. Dropping it removes the gateway and its report.
#[derive(Debug)]
pub struct Membership {
    name: Arc<str>,
    gateways: Gateways,
}

impl Gateways {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self { members: watch::Sender::new(Arc::new([])), reports: watch::Sender::default() }
    }

    /// Adds a gateway; it replaces a gateway of the same name.
    #[must_use = "dropping it removes the gateway"]
    pub fn join(&self, gateway: Gateway) -> Membership {
        let name = gateway.name.clone();
        self.members.send_modify(|members| {
            let others = members.iter().filter(|member| member.name != gateway.name);
            let mut all: Vec<_> = others.cloned().collect();
            all.push(gateway);
            all.sort_by(|a, b| a.name.cmp(&b.name));
            *members = all.into();
        });
        Membership { name, gateways: self.clone() }
    }

    /// Returns a receiver of the running gateways, sorted by name, and every change.
    #[must_use]
    pub fn members(&self) -> watch::Receiver<Arc<[Gateway]>> {
        self.members.subscribe()
    }

    fn leave(&self, name: &str) {
        self.members.send_modify(|members| {
            let others = members.iter().filter(|member| *member.name != *name);
            *members = others.cloned().collect();
        });
        self.reports.send_modify(|reports| {
            Arc::make_mut(reports).remove(name);
        });
    }
}

impl Default for Gateways {
    fn default() -> Self {
        Self::new()
    }
}

impl Reports for Gateways {
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>> {
        self.reports.subscribe()
    }
}

impl Membership {
    /// Replaces the gateway's report and notifies watchers at once.
    pub fn publish(&self, report: Report) {
        self.gateways.reports.send_modify(|reports| {
            Arc::make_mut(reports).insert(self.name.clone(), Arc::new(report));
        });
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.gateways.leave(&self.name);
    }
}
