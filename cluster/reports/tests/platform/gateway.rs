//! A stand-in for a gateway: an admin port that serves the test's reports.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_cluster::{Activity, LatestReports, Report, Reports, ServiceName};
use weir_cluster_reports::RemoteReports;
use weir_ops::admin::{Admin, Health};

/// Maximum time to wait for any state.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Admin port of a test gateway.
pub(crate) struct AdminPort {
    pub(crate) address: SocketAddr,
    reports: watch::Sender<Arc<Report>>,
    serving: JoinHandle<()>,
}

impl AdminPort {
    pub(crate) async fn start(report: Report) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, report)
    }

    pub(crate) fn on(listener: TcpListener, report: Report) -> Self {
        let address = listener.local_addr().unwrap();
        let (reports, watched) = watch::channel(Arc::new(report));
        let registry = Arc::new(Registry::default());
        let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving))
            .with_service(weir_cluster_reports::PATH, weir_cluster_reports::service(watched));
        Self { address, reports, serving: tokio::spawn(admin.serve(CancellationToken::new())) }
    }

    /// Starts a port that answers only requests with this value of `Authorization`, and returns all values that it saw.
    pub(crate) async fn with_token(report: Report, expected: &'static str) -> (Self, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (reports, watched) = watch::channel(Arc::new(report));
        let (service, seen) = (weir_cluster_reports::service(watched), Arc::new(Mutex::new(Vec::new())));
        let values = Arc::clone(&seen);
        let admin = Admin::new(listener, Arc::new(Registry::default()), Arc::new(|| Health::Serving));
        let checked = tower::service_fn(move |request: http::Request<axum::body::Body>| {
            let given = request.headers().get("authorization").map_or("", |value| value.to_str().unwrap()).to_owned();
            values.lock().unwrap().push(given.clone());
            let mut service = service.clone();
            async move {
                if given != expected {
                    let refused = http::Response::builder().status(401).body(axum::body::Body::empty());
                    return Ok::<_, std::convert::Infallible>(refused.unwrap());
                }
                let answer = tower::Service::call(&mut service, request).await.unwrap();
                Ok(answer.map(axum::body::Body::new))
            }
        });
        let admin = admin.with_service(weir_cluster_reports::PATH, checked);
        (Self { address, reports, serving: tokio::spawn(admin.serve(CancellationToken::new())) }, seen)
    }

    pub(crate) fn report(&self, report: Report) {
        self.reports.send_replace(Arc::new(report));
    }

    /// Returns a sender with which another task can publish reports.
    pub(crate) fn reports(&self) -> watch::Sender<Arc<Report>> {
        self.reports.clone()
    }

    /// Waits until a subscriber watches the reports.
    pub(crate) async fn wait_until_watched(&self) {
        let wait = async {
            // The service itself holds one receiver.
            while self.reports.receiver_count() < 2 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "no subscriber watches the reports");
    }

    /// Stops the server and closes all its connections. Returns its address.
    pub(crate) async fn die(self) -> SocketAddr {
        self.serving.abort();
        assert!(self.serving.await.unwrap_err().is_cancelled());
        self.address
    }

    /// Returns the gateway as it appears in snapshots.
    pub(crate) fn member(&self, name: &str) -> weir_cluster::Gateway {
        member(name, self.address)
    }
}

pub(crate) fn member(name: &str, address: SocketAddr) -> weir_cluster::Gateway {
    weir_cluster::Gateway { name: name.into(), serving: address.into(), admin: Some(address.into()) }
}

/// Returns a report of one revision with this many arrivals.
pub(crate) fn report(started: u64, arrivals: u64) -> Report {
    let service = ServiceName::new("default", "digits").unwrap();
    let mut activity = Activity { arrivals, credits: 4, ..Activity::default() };
    activity.queue_delay.record(Duration::from_millis(3));
    activity.batches.record(8, Duration::from_millis(5));
    Report {
        started,
        age_us: arrivals,
        routes: 1,
        revisions: [(service.revision(1).unwrap(), Arc::new(activity))].into(),
    }
}

/// Waits until the reports satisfy `is_so`.
pub(crate) async fn wait(reports: &RemoteReports, what: &str, is_so: impl Fn(&LatestReports) -> bool) {
    let mut latest = reports.watch();
    let wait = latest.wait_for(|latest| is_so(latest));
    let received = tokio::time::timeout(DEADLINE, wait).await;
    let received = received.map(|received| received.is_ok());
    assert!(matches!(received, Ok(true)), "waited for {what}: {:?}", reports.watch().borrow());
}

/// Waits until the gateway's report equals `report`.
pub(crate) async fn wait_for(reports: &RemoteReports, name: &str, report: &Report) {
    wait(reports, "a report", |latest| latest.get(name).is_some_and(|received| **received == *report)).await;
}
