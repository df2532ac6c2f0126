//! One gateway's watch: dialled, read, dialled again when it breaks.

mod backoff;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use weir_cluster::{Address, Report};

use crate::error::RemoteError;
use crate::message::{self, MAX_MESSAGE};
use crate::proto::WatchRequest;
use crate::proto::reports_client::ReportsClient;
use backoff::Backoff;

/// Gateways are near: a connection that takes longer than some retransmissions is none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What was heard of one gateway.
pub(crate) struct News {
    /// The listener's number.
    pub(crate) number: u64,
    /// Its report; none while it is silent.
    pub(crate) report: Option<Arc<Report>>,
}

/// Listens to one gateway.
pub(crate) struct Listener {
    pub(crate) number: u64,
    pub(crate) gateway: Arc<str>,
    pub(crate) address: Address,
    pub(crate) news: mpsc::Sender<News>,
}

/// When a report was made: in which life of the gateway, and at what age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    started: u64,
    age_us: u64,
}

impl Made {
    fn of(report: &Report) -> Self {
        Self {
            started: report.started,
            age_us: report.age_us,
        }
    }
}

impl Listener {
    /// Listens until it is dropped.
    pub(crate) async fn run(self) {
        let heard = Notify::new();
        tokio::select! {
            () = self.listen(&heard) => {}
            () = self.expire(&heard) => {}
        }
    }

    async fn listen(&self, heard: &Notify) {
        let mut backoff = Backoff::default();
        let mut last = None;
        loop {
            let Err(error) = self.converse(&mut last, heard, &mut backoff).await;
            if backoff.is_first() {
                let (gateway, address) = (&self.gateway, &self.address);
                let error = describe(&error);
                tracing::warn!(%gateway, %address, error, "its reports are not heard; dialling again");
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// Hands on each new report until the watch breaks or falls silent.
    async fn converse(
        &self,
        last: &mut Option<Made>,
        heard: &Notify,
        backoff: &mut Backoff,
    ) -> Result<Infallible, RemoteError> {
        let client = ReportsClient::new(in_time(dial(&self.address)).await?);
        let mut client = client.max_decoding_message_size(MAX_MESSAGE);
        let watch = async {
            client
                .watch(WatchRequest {})
                .await
                .map_err(RemoteError::broken)
        };
        let mut reports = in_time(watch).await?.into_inner();
        loop {
            let next = async { reports.message().await.map_err(RemoteError::broken) };
            let message = in_time(next).await?.ok_or(RemoteError::Ended)?;
            let report = message::decode(message)?;
            *backoff = Backoff::default();
            // A gateway that hangs still says what it said last to everybody who dials.
            if last.replace(Made::of(&report)) != Some(Made::of(&report)) {
                heard.notify_one();
                self.tell(Some(Arc::new(report))).await;
            }
        }
    }

    /// Takes the report back whenever the gateway was not heard for too long.
    async fn expire(&self, heard: &Notify) {
        loop {
            heard.notified().await;
            while timeout(Report::SILENT_AFTER, heard.notified())
                .await
                .is_ok()
            {}
            tracing::warn!(gateway = %self.gateway, "silent: its report is dropped");
            self.tell(None).await;
        }
    }

    async fn tell(&self, report: Option<Arc<Report>>) {
        let number = self.number;
        // Whom it tells is about to end it otherwise.
        let _ = self.news.send(News { number, report }).await;
    }
}

async fn dial(address: &Address) -> Result<Channel, RemoteError> {
    let uri = match address {
        Address::Tcp(address) => format!("http://{address}"),
        Address::Unix(_) => address.to_string(),
    };
    let unreached = |error| RemoteError::Unreached(deepest(&error));
    let endpoint = Endpoint::from_shared(uri).map_err(unreached)?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
    endpoint.connect().await.map_err(unreached)
}

async fn in_time<T>(work: impl Future<Output = Result<T, RemoteError>>) -> Result<T, RemoteError> {
    let silent = Report::SILENT_AFTER;
    timeout(silent, work)
        .await
        .unwrap_or(Err(RemoteError::Silent(silent)))
}

/// The last cause: what lies between says nothing more than that something failed.
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
