//! Load: clients that ask again and again, and count what they get.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::{Answer, Grpc, Http, Lost};
use crate::weir::until;

/// No request takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all clients got.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Answers with 200, by revision.
    pub(crate) answered: BTreeMap<String, u64>,
    /// Their ids, in the order of the answers.
    pub(crate) ids: Vec<String>,
    /// Everything that is neither that nor a refused connection.
    pub(crate) failed: Vec<String>,
    /// Clients that could not connect any more, and left.
    pub(crate) refused: u64,
}

/// Clients at work, in threads of their own. Dropped, they stop.
pub(crate) struct Load {
    runtime: Runtime,
    stop: CancellationToken,
    clients: TaskTracker,
    tally: Arc<Mutex<Tally>>,
}

/// One client.
struct Client {
    wire: Connection,
    deadline_ms: String,
    tally: Arc<Mutex<Tally>>,
    next: Arc<AtomicU64>,
}

enum Connection {
    Http(Http),
    Grpc(Grpc),
}

impl Load {
    /// So many clients over each protocol, each with one request at a time.
    pub(crate) fn start(address: SocketAddr, http: usize, grpc: usize) -> Self {
        Self::within(PATIENCE, address, http, grpc)
    }

    /// The same, with a deadline for every request.
    pub(crate) fn within(
        deadline: Duration,
        address: SocketAddr,
        http: usize,
        grpc: usize,
    ) -> Self {
        let load = Self {
            runtime: runtime(),
            stop: CancellationToken::new(),
            clients: TaskTracker::new(),
            tally: Arc::default(),
        };
        let next = Arc::new(AtomicU64::new(0));
        let wires = (0..http).map(|_| Connection::Http(Http::new(address)));
        let wires = wires.chain((0..grpc).map(|_| Connection::Grpc(Grpc::new(address))));
        for wire in wires {
            let client = Client {
                wire,
                deadline_ms: deadline.as_millis().to_string(),
                tally: Arc::clone(&load.tally),
                next: Arc::clone(&next),
            };
            let working = client.work(load.stop.clone());
            load.clients.spawn_on(working, load.runtime.handle());
        }
        load
    }

    /// Answers so far.
    pub(crate) fn answered(&self) -> u64 {
        self.tally.lock().answered.values().sum()
    }

    /// Lets every client finish its request.
    pub(crate) fn end(self) -> Tally {
        self.stop.cancel();
        self.gone()
    }

    /// Waits until every client has left by itself: nobody takes connections any more.
    pub(crate) fn gone(self) -> Tally {
        self.clients.close();
        self.runtime.block_on(self.clients.wait());
        std::mem::take(&mut *self.tally.lock())
    }
}

/// Requests by which a split is judged. Twenty percent of them give or take three are more than three
/// standard deviations of dice, and the gateway's split is steadier than dice.
const SPLIT: u64 = 2000;
const TWENTY_PERCENT: std::ops::RangeInclusive<f64> = 17.0..=23.0;

/// Requests that tell that there is no split.
const WHOLE: u64 = 100;

impl Load {
    /// Every answer is one, and a fifth of them is this revision's.
    pub(crate) fn splits_to(self, revision: &str) {
        let tally = self.judged(SPLIT);
        let share = tally.answered[revision] as f64 * 100.0 / tally.total() as f64;
        assert!(
            TWENTY_PERCENT.contains(&share),
            "{share} %: {:?}",
            tally.answered
        );
    }

    /// Every answer is this revision's.
    pub(crate) fn go_all_to(self, revision: &str) {
        let tally = self.judged(WHOLE);
        let revisions: Vec<_> = tally.answered.into_keys().collect();
        assert_eq!(revisions, [revision]);
    }

    fn judged(self, requests: u64) -> Tally {
        let explain = || format!("{:?}", self.tally.lock());
        until("answers", || self.answered() >= requests, explain);
        let tally = self.end();
        assert_eq!(tally.failed, [""; 0]);
        tally
    }
}

impl Client {
    async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
            let headers = [("x-request-id", &*id), ("weir-timeout", &self.deadline_ms)];
            let answer = match &mut self.wire {
                Connection::Http(http) => http.infer(&headers).await,
                Connection::Grpc(grpc) => grpc.infer(&headers).await,
            };
            if self.count(id, answer).is_none() {
                return;
            }
        }
    }

    /// None once there is nobody to ask.
    fn count(&self, id: String, answer: Result<Answer, Lost>) -> Option<()> {
        let mut tally = self.tally.lock();
        match answer {
            Ok(answer) if answer.status == 200 => {
                let revision = answer.revision();
                *tally.answered.entry(revision).or_default() += 1;
                tally.ids.push(id);
            }
            Ok(answer) => tally
                .failed
                .push(format!("{id}: {} {}", answer.status, answer.text)),
            Err(Lost::Unsent) => {}
            Err(Lost::Refused) => {
                tally.refused += 1;
                return None;
            }
            Err(Lost::Cut(error)) => tally.failed.push(format!("{id}: {error}")),
        }
        Some(())
    }
}

impl Tally {
    pub(crate) fn total(&self) -> u64 {
        self.answered.values().sum()
    }
}

/// Requests in a fixed rhythm, whether others are answered or not. Dropped, it stops.
pub(crate) struct OpenLoad {
    runtime: Runtime,
    stop: CancellationToken,
    asked: TaskTracker,
    got: Arc<Mutex<Got>>,
}

#[derive(Default)]
struct Got {
    waits_ms: Vec<f64>,
    failed: Vec<String>,
}

impl OpenLoad {
    /// One request in each interval, over one HTTP/2 connection.
    pub(crate) fn start(address: SocketAddr, interval: Duration) -> Self {
        let load = Self {
            runtime: runtime(),
            stop: CancellationToken::new(),
            asked: TaskTracker::new(),
            got: Arc::default(),
        };
        let (asked, got) = (load.asked.clone(), Arc::clone(&load.got));
        let asking = async move {
            let mut rhythm = tokio::time::interval(interval);
            let mut grpc = Grpc::new(address);
            loop {
                rhythm.tick().await;
                let sent = grpc.begin(&[]).await.unwrap();
                let got = Arc::clone(&got);
                asked.spawn(async move {
                    let answer = Grpc::finish(sent.await).await;
                    got.lock().note(answer);
                });
            }
        };
        let stop = load.stop.clone();
        load.runtime
            .spawn(async move { stop.run_until_cancelled(asking).await });
        load
    }

    /// How long each request waited for a replica, in milliseconds, in the order of the answers.
    pub(crate) fn waits(&self) -> Vec<f64> {
        self.got.lock().waits_ms.clone()
    }

    /// Asks no more, waits for the answers that are out, and says which were none.
    pub(crate) fn end(self) -> Vec<String> {
        self.stop.cancel();
        self.asked.close();
        self.runtime.block_on(self.asked.wait());
        std::mem::take(&mut self.got.lock().failed)
    }
}

impl Got {
    fn note(&mut self, answer: Result<Answer, Lost>) {
        match answer {
            Ok(answer) if answer.status == 200 => self.waits_ms.push(answer.queued_ms()),
            other => self.failed.push(format!("{other:?}")),
        }
    }
}

/// A thread for clients.
pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}
