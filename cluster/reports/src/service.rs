//! The watch that a gateway serves.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};
use weir_cluster::Report;

use crate::message;
use crate::proto::reports_server::{Reports, ReportsServer};
use crate::proto::{self, WatchRequest};

/// The beginning of its paths, for the server that hands requests to it.
pub const PATH: &str = "/weir.v1.Reports/";

/// The service, for a server that speaks HTTP/2.
pub type ReportsService = ReportsServer<ServedReports>;

/// Bytes of the largest request, which is empty so far.
const MAX_REQUEST: usize = 4096;

/// Serves a watch of these reports: the latest, and every change that the reader is fast enough for. It
/// ends with them.
#[must_use]
pub fn service(reports: watch::Receiver<Arc<Report>>) -> ReportsService {
    ReportsServer::new(ServedReports { reports }).max_decoding_message_size(MAX_REQUEST)
}

/// The handler of the watch.
#[derive(Debug)]
pub struct ServedReports {
    reports: watch::Receiver<Arc<Report>>,
}

#[tonic::async_trait]
impl Reports for ServedReports {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::Report, Status>> + Send>>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let reports = WatchStream::new(self.reports.clone());
        let messages = reports.map(|report| Ok(message::encode(&report)));
        Ok(Response::new(Box::pin(messages)))
    }
}
