//! The subscription to one gateway's reports: connects, reads, and reconnects after a failure.

mod backoff;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use weir_cluster::{Address, Report};

use crate::error::RemoteError;
use crate::message::{self, MAX_MESSAGE};
use crate::proto::WatchRequest;
use crate::proto::reports_client::ReportsClient;
use backoff::Backoff;

/// Maximum time to connect. Gateways are in the same cluster, so a connection that takes longer than a few
/// retransmissions will not succeed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Source of the bearer token that gateways' admin ports ask for, called for each connection; `None` to send none.
pub type TokenSource = Arc<dyn Fn() -> Option<Arc<str>> + Send + Sync>;

/// A change of one gateway's report.
pub(crate) struct ReportUpdate {
    /// Number of the subscription that sends the update.
    pub(crate) number: u64,
    /// The gateway's report; `None` while the gateway is silent.
    pub(crate) report: Option<Arc<Report>>,
}

/// Subscriber to the reports of one gateway.
pub(crate) struct Subscriber {
    pub(crate) number: u64,
    pub(crate) gateway: Arc<str>,
    pub(crate) address: Address,
    pub(crate) updates: mpsc::Sender<ReportUpdate>,
    pub(crate) token: TokenSource,
}

/// Identifies a report by its time: the start of the gateway, and the gateway's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReportTime {
    started: u64,
    age_us: u64,
}

impl ReportTime {
    fn of(report: &Report) -> Self {
        Self { started: report.started, age_us: report.age_us }
    }
}

impl Subscriber {
    /// Runs until the future is dropped.
    pub(crate) async fn run(self) {
        let received = Notify::new();
        tokio::select! {
            () = self.keep_subscribed(&received) => {}
            () = self.expire(&received) => {}
        }
    }

    async fn keep_subscribed(&self, received: &Notify) {
        let mut backoff = Backoff::default();
        let mut last = None;
        loop {
            let Err(error) = self.subscribe(&mut last, received, &mut backoff).await;
            if backoff.is_first() {
                let (gateway, address) = (&self.gateway, &self.address);
                let error = describe(&error);
                tracing::warn!(%gateway, %address, error, "cannot watch a gateway's reports; reconnecting");
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// Forwards each new report until the watch breaks or falls silent.
    async fn subscribe(
        &self,
        last: &mut Option<ReportTime>,
        received: &Notify,
        backoff: &mut Backoff,
    ) -> Result<Infallible, RemoteError> {
        let client = ReportsClient::new(in_time(dial(&self.address)).await?);
        let mut client = client.max_decoding_message_size(MAX_MESSAGE);
        let watch = async { client.watch(self.request()).await.map_err(RemoteError::broken) };
        let mut reports = in_time(watch).await?.into_inner();
        loop {
            let next = async { reports.message().await.map_err(RemoteError::broken) };
            let message = in_time(next).await?.ok_or(RemoteError::Ended)?;
            let report = message::decode(message)?;
            *backoff = Backoff::default();
            // A hung gateway still serves its last report on every new connection, so a repeated report does not count.
            if last.replace(ReportTime::of(&report)) != Some(ReportTime::of(&report)) {
                received.notify_one();
                self.send(Some(Arc::new(report))).await;
            }
        }
    }

    /// Returns the request, with the token of gateways' admin ports if there is one.
    fn request(&self) -> Request<WatchRequest> {
        let mut request = Request::new(WatchRequest {});
        let token = (self.token)().and_then(|token| format!("Bearer {token}").parse::<AsciiMetadataValue>().ok());
        if let Some(mut token) = token {
            token.set_sensitive(true);
            request.metadata_mut().insert("authorization", token);
        }
        request
    }

    /// Removes the report whenever no new one arrived for too long.
    async fn expire(&self, received: &Notify) {
        loop {
            received.notified().await;
            while timeout(Report::SILENT_AFTER, received.notified()).await.is_ok() {}
            tracing::warn!(gateway = %self.gateway, "no report from a gateway in time; its last one is ignored until it reports again");
            self.send(None).await;
        }
    }

    async fn send(&self, report: Option<Arc<Report>>) {
        let number = self.number;
        // The error is ignored: without a receiver this task is about to be aborted.
        let _ = self.updates.send(ReportUpdate { number, report }).await;
    }
}

async fn dial(address: &Address) -> Result<Channel, RemoteError> {
    let uri = match address {
        Address::Tcp(address) => format!("http://{address}"),
        Address::Unix(_) => address.to_string(),
    };
    let connect_failed = |error| RemoteError::ConnectFailed(deepest(&error));
    let endpoint = Endpoint::from_shared(uri).map_err(connect_failed)?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
    endpoint.connect().await.map_err(connect_failed)
}

async fn in_time<T>(work: impl Future<Output = Result<T, RemoteError>>) -> Result<T, RemoteError> {
    let silent = Report::SILENT_AFTER;
    timeout(silent, work).await.unwrap_or(Err(RemoteError::Silent(silent)))
}

/// Returns the innermost cause: the outer errors only say that something failed.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn describe(error: &RemoteError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
