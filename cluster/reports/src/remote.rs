//! Subscriptions to the reports of gateways in other processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Address, Gateway, LatestReports, Report, Reports};

use crate::subscriber::{ReportUpdate, Subscriber, TokenSource};

/// Capacity of the channel of updates. Applying an update takes microseconds; subscribers wait when the channel is
/// full.
const WAITING: usize = 64;

/// The latest reports of gateways in other processes. Clones share them; watching ends when the last clone is dropped.
///
/// A gateway that sends no report for [`Report::SILENT_AFTER`] has none until it sends one again.
#[derive(Clone, Debug)]
pub struct RemoteReports {
    latest: watch::Receiver<Arc<LatestReports>>,
    _following: Arc<AbortOnDropHandle<()>>,
}

impl RemoteReports {
    /// Subscribes like [`Self::follow_with`], without a token.
    #[must_use]
    pub fn follow(gateways: watch::Receiver<Arc<[Gateway]>>) -> Self {
        Self::follow_with(gateways, Arc::new(|| None))
    }

    /// Subscribes to these gateways and all later ones, with the bearer token that their admin ports may ask for.
    /// Gateways without an admin port are skipped. Must be called within a tokio runtime.
    #[must_use]
    pub fn follow_with(gateways: watch::Receiver<Arc<[Gateway]>>, token: TokenSource) -> Self {
        let (publish, latest) = watch::channel(Arc::default());
        let (sender, updates) = mpsc::channel(WAITING);
        let subscriptions = Subscriptions { all: BTreeMap::new(), next: 0, sender, publish, token };
        let following = tokio::spawn(subscriptions.run(gateways, updates));
        Self { latest, _following: Arc::new(AbortOnDropHandle::new(following)) }
    }
}

impl Reports for RemoteReports {
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>> {
        self.latest.clone()
    }
}

/// The subscriptions, by gateway name.
struct Subscriptions {
    all: BTreeMap<Arc<str>, Subscription>,
    next: u64,
    sender: mpsc::Sender<ReportUpdate>,
    publish: watch::Sender<Arc<LatestReports>>,
    /// Source of the token for gateways' admin ports.
    token: TokenSource,
}

struct Subscription {
    /// Distinguishes the updates of this subscription from those of an earlier gateway of the same name.
    number: u64,
    address: Address,
    _task: AbortOnDropHandle<()>,
}

impl Subscriptions {
    async fn run(mut self, mut gateways: watch::Receiver<Arc<[Gateway]>>, mut updates: mpsc::Receiver<ReportUpdate>) {
        self.set_gateways(&gateways.borrow_and_update().clone());
        let mut follows = true;
        loop {
            tokio::select! {
                changed = gateways.changed(), if follows => match changed {
                    Ok(()) => self.set_gateways(&gateways.borrow_and_update().clone()),
                    // Without a cluster, the last known gateways are kept.
                    Err(_) => follows = false,
                },
                Some(update) = updates.recv() => self.apply(update),
            }
        }
    }

    /// Subscribes to new gateways and drops those that left. A gateway with a new address counts as new.
    fn set_gateways(&mut self, gateways: &[Gateway]) {
        let stays = |name: &Arc<str>, subscription: &Subscription| {
            let same = gateways.iter().find(|gateway| gateway.name == *name);
            same.is_some_and(|gateway| gateway.admin.as_ref() == Some(&subscription.address))
        };
        self.all.retain(|name, subscription| stays(name, subscription));
        self.forget_others();
        for gateway in gateways {
            match &gateway.admin {
                Some(address) if !self.all.contains_key(&gateway.name) => {
                    let subscription = self.subscribe(gateway, address);
                    self.all.insert(gateway.name.clone(), subscription);
                }
                Some(_) | None => {}
            }
        }
    }

    fn subscribe(&mut self, gateway: &Gateway, address: &Address) -> Subscription {
        self.next += 1;
        let subscriber = Subscriber {
            number: self.next,
            gateway: gateway.name.clone(),
            address: address.clone(),
            updates: self.sender.clone(),
            token: Arc::clone(&self.token),
        };
        Subscription {
            number: self.next,
            address: address.clone(),
            _task: AbortOnDropHandle::new(tokio::spawn(subscriber.run())),
        }
    }

    /// Applies an update, unless its gateway has left.
    fn apply(&self, update: ReportUpdate) {
        let mut all = self.all.iter();
        let Some((name, _)) = all.find(|(_, subscription)| subscription.number == update.number) else {
            return;
        };
        self.publish.send_modify(|reports| {
            put(Arc::make_mut(reports), name, update.report);
        });
    }

    fn forget_others(&self) {
        let is_known = |name: &Arc<str>| self.all.contains_key(name);
        self.publish.send_if_modified(|reports| {
            let is_stale = !reports.keys().all(is_known);
            if is_stale {
                Arc::make_mut(reports).retain(|name, _| is_known(name));
            }
            is_stale
        });
    }
}

fn put(reports: &mut LatestReports, name: &Arc<str>, report: Option<Arc<Report>>) {
    match report {
        Some(report) => reports.insert(name.clone(), report),
        None => reports.remove(name),
    };
}
