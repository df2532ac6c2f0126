//! The reports of all gateways, each watched where it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Address, Gateway, LatestReports, Report, Reports};

use crate::listener::{Listener, News};

/// News that wait to be taken in, which takes microseconds; more wait in their listeners.
const WAITING: usize = 64;

/// The reports of gateways in other processes. Clones share them; with the last clone watching ends.
///
/// A gateway that is not heard for [`Report::SILENT_AFTER`] has no report until it is heard again.
#[derive(Clone, Debug)]
pub struct RemoteReports {
    latest: watch::Receiver<Arc<LatestReports>>,
    _following: Arc<AbortOnDropHandle<()>>,
}

impl RemoteReports {
    /// Dials the admin ports of these gateways, and of those that follow them; gateways without one are
    /// passed over. Must be called within a tokio runtime.
    #[must_use]
    pub fn follow(gateways: watch::Receiver<Arc<[Gateway]>>) -> Self {
        let (publish, latest) = watch::channel(Arc::default());
        let (sender, news) = mpsc::channel(WAITING);
        let dialled = Dialled {
            all: BTreeMap::new(),
            next: 0,
            sender,
            publish,
        };
        let following = tokio::spawn(dialled.run(gateways, news));
        Self {
            latest,
            _following: Arc::new(AbortOnDropHandle::new(following)),
        }
    }
}

impl Reports for RemoteReports {
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>> {
        self.latest.clone()
    }
}

/// The gateways that are dialled, by name.
struct Dialled {
    all: BTreeMap<Arc<str>, Line>,
    next: u64,
    sender: mpsc::Sender<News>,
    publish: watch::Sender<Arc<LatestReports>>,
}

struct Line {
    /// Tells its news from those of one that had the name before.
    number: u64,
    address: Address,
    _listening: AbortOnDropHandle<()>,
}

impl Dialled {
    async fn run(
        mut self,
        mut gateways: watch::Receiver<Arc<[Gateway]>>,
        mut news: mpsc::Receiver<News>,
    ) {
        self.meet(&gateways.borrow_and_update().clone());
        let mut is_told = true;
        loop {
            tokio::select! {
                changed = gateways.changed(), if is_told => match changed {
                    Ok(()) => self.meet(&gateways.borrow_and_update().clone()),
                    // Without a cluster, the gateways that were last known stay.
                    Err(_) => is_told = false,
                },
                Some(news) = news.recv() => self.note(news),
            }
        }
    }

    /// Dials newcomers and forgets those who left. One that moved is a newcomer.
    fn meet(&mut self, gateways: &[Gateway]) {
        let stays = |name: &Arc<str>, line: &Line| {
            let same = gateways.iter().find(|gateway| gateway.name == *name);
            same.is_some_and(|gateway| gateway.admin.as_ref() == Some(&line.address))
        };
        self.all.retain(|name, line| stays(name, line));
        self.forget_others();
        for gateway in gateways {
            match &gateway.admin {
                Some(address) if !self.all.contains_key(&gateway.name) => {
                    let line = self.dial(gateway, address);
                    self.all.insert(gateway.name.clone(), line);
                }
                Some(_) | None => {}
            }
        }
    }

    fn dial(&mut self, gateway: &Gateway, address: &Address) -> Line {
        self.next += 1;
        let listener = Listener {
            number: self.next,
            gateway: gateway.name.clone(),
            address: address.clone(),
            news: self.sender.clone(),
        };
        Line {
            number: self.next,
            address: address.clone(),
            _listening: AbortOnDropHandle::new(tokio::spawn(listener.run())),
        }
    }

    /// Takes in what a listener says, unless its gateway has left.
    fn note(&self, news: News) {
        let mut all = self.all.iter();
        let Some((name, _)) = all.find(|(_, line)| line.number == news.number) else {
            return;
        };
        self.publish.send_modify(|reports| {
            put(Arc::make_mut(reports), name, news.report);
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
