//! Load generators: clients that send requests in a loop and count the responses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::{Answer, GrpcClient, HttpClient, RequestError};
use crate::weir::wait_until;

/// Deadline of each request.
const DEADLINE: Duration = Duration::from_secs(60);

/// Counts of all clients together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of responses with status 200, by revision.
    pub(crate) answered: BTreeMap<String, u64>,
    /// Ids of the answered requests, in the order of the responses.
    pub(crate) ids: Vec<String>,
    /// Messages of failed responses and of closed connections.
    pub(crate) failed: Vec<String>,
    /// Number of clients that stopped because their connection was refused.
    pub(crate) refused: u64,
}

/// Clients that run in their own threads until they are dropped.
pub(crate) struct Load {
    runtime: Runtime,
    stop: CancellationToken,
    clients: TaskTracker,
    tally: Arc<Mutex<Tally>>,
}

/// A client that sends one request at a time.
struct Client {
    connection: Connection,
    deadline_ms: String,
    tally: Arc<Mutex<Tally>>,
    next: Arc<AtomicU64>,
}

enum Connection {
    Http(HttpClient),
    Grpc(GrpcClient),
}

impl Load {
    /// Starts this number of clients for each protocol, each sending one request at a time.
    pub(crate) fn start(address: SocketAddr, http: usize, grpc: usize) -> Self {
        Self::within(DEADLINE, address, http, grpc)
    }

    /// Starts clients with a deadline for every request.
    pub(crate) fn within(deadline: Duration, address: SocketAddr, http: usize, grpc: usize) -> Self {
        let load = Self {
            runtime: runtime(),
            stop: CancellationToken::new(),
            clients: TaskTracker::new(),
            tally: Arc::default(),
        };
        let next = Arc::new(AtomicU64::new(0));
        let connections = (0..http).map(|_| Connection::Http(HttpClient::new(address)));
        let connections = connections.chain((0..grpc).map(|_| Connection::Grpc(GrpcClient::new(address))));
        for connection in connections {
            let client = Client {
                connection,
                deadline_ms: deadline.as_millis().to_string(),
                tally: Arc::clone(&load.tally),
                next: Arc::clone(&next),
            };
            let working = client.work(load.stop.clone());
            load.clients.spawn_on(working, load.runtime.handle());
        }
        load
    }

    /// Returns the number of responses with status 200 so far.
    pub(crate) fn answered(&self) -> u64 {
        self.tally.lock().answered.values().sum()
    }

    /// Waits until this many further requests are answered.
    pub(crate) fn wait_for_answers(&self, count: u64, explain: impl Fn() -> String) {
        let enough = self.answered() + count;
        wait_until("further answers", || self.answered() >= enough, explain);
    }

    /// Stops every client after its present request, and returns the counts.
    pub(crate) fn end(self) -> Tally {
        self.stop.cancel();
        self.wait_until_refused()
    }

    /// Waits until every client has stopped because the port refuses connections.
    pub(crate) fn wait_until_refused(self) -> Tally {
        self.clients.close();
        self.runtime.block_on(self.clients.wait());
        std::mem::take(&mut *self.tally.lock())
    }
}

/// Number of requests with which a split is measured. Three percent off twenty are more than three standard deviations
/// of a random split, and the gateway's split varies less than a random one.
const SPLIT: u64 = 2000;
const TWENTY_PERCENT: std::ops::RangeInclusive<f64> = 17.0..=23.0;

/// Number of requests that show that there is no split.
const WHOLE: u64 = 100;

impl Load {
    /// Checks that no request fails and that this revision answers a fifth of them.
    pub(crate) fn splits_to(self, revision: &str) {
        let tally = self.measure(SPLIT);
        let share = tally.answered[revision] as f64 * 100.0 / tally.total() as f64;
        assert!(TWENTY_PERCENT.contains(&share), "{share} %: {:?}", tally.answered);
    }

    /// Checks that this revision answers every request.
    pub(crate) fn go_all_to(self, revision: &str) {
        let tally = self.measure(WHOLE);
        let revisions: Vec<_> = tally.answered.into_keys().collect();
        assert_eq!(revisions, [revision]);
    }

    fn measure(self, requests: u64) -> Tally {
        let explain = || format!("{:?}", self.tally.lock());
        wait_until("answers", || self.answered() >= requests, explain);
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
            let answer = match &mut self.connection {
                Connection::Http(http) => http.infer(&headers).await,
                Connection::Grpc(grpc) => grpc.infer(&headers).await,
            };
            if self.count(id, answer).is_none() {
                return;
            }
        }
    }

    /// Counts a response; returns `None` once the port refuses connections.
    fn count(&self, id: String, answer: Result<Answer, RequestError>) -> Option<()> {
        let mut tally = self.tally.lock();
        match answer {
            Ok(answer) if answer.status == 200 => {
                let revision = answer.revision();
                *tally.answered.entry(revision).or_default() += 1;
                tally.ids.push(id);
            }
            Ok(answer) => tally.failed.push(format!("{id}: {} {}", answer.status, answer.text)),
            Err(RequestError::NotSent) => {}
            Err(RequestError::ConnectionRefused) => {
                tally.refused += 1;
                return None;
            }
            Err(RequestError::ConnectionClosed(error)) => {
                tally.failed.push(format!("{id}: {error}"));
            }
        }
        Some(())
    }
}

impl Tally {
    pub(crate) fn total(&self) -> u64 {
        self.answered.values().sum()
    }
}

/// Requests at a fixed rate, independent of the responses, until it is dropped.
pub(crate) struct OpenLoopLoad {
    runtime: Runtime,
    stop: CancellationToken,
    asked: TaskTracker,
    got: Arc<Mutex<OpenLoopTally>>,
}

#[derive(Default)]
struct OpenLoopTally {
    waits_ms: Vec<f64>,
    failed: Vec<String>,
}

impl OpenLoopLoad {
    /// Starts to send a request in each interval, over one HTTP/2 connection.
    pub(crate) fn start(address: SocketAddr, interval: Duration) -> Self {
        let load =
            Self { runtime: runtime(), stop: CancellationToken::new(), asked: TaskTracker::new(), got: Arc::default() };
        let (asked, got) = (load.asked.clone(), Arc::clone(&load.got));
        let asking = async move {
            let mut rhythm = tokio::time::interval(interval);
            let mut grpc = GrpcClient::new(address);
            loop {
                rhythm.tick().await;
                let sent = grpc.begin(&[]).await.unwrap();
                let got = Arc::clone(&got);
                asked.spawn(async move {
                    let answer = GrpcClient::finish(sent.await).await;
                    got.lock().add(answer);
                });
            }
        };
        let stop = load.stop.clone();
        load.runtime.spawn(async move { stop.run_until_cancelled(asking).await });
        load
    }

    /// Returns the time that each request waited for a replica, in milliseconds, in the order of the responses.
    pub(crate) fn waits(&self) -> Vec<f64> {
        self.got.lock().waits_ms.clone()
    }

    /// Stops, waits for the requests in flight, and returns the messages of failed requests.
    pub(crate) fn end(self) -> Vec<String> {
        self.stop.cancel();
        self.asked.close();
        self.runtime.block_on(self.asked.wait());
        std::mem::take(&mut self.got.lock().failed)
    }
}

impl OpenLoopTally {
    fn add(&mut self, answer: Result<Answer, RequestError>) {
        match answer {
            Ok(answer) if answer.status == 200 => self.waits_ms.push(answer.queued_ms()),
            other => self.failed.push(format!("{other:?}")),
        }
    }
}

/// Creates a runtime with one thread for clients.
pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}
