//! The gRPC service with which a gateway serves its reports.

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

/// Prefix of the service's paths, for the server that dispatches requests to it.
pub const PATH: &str = "/weir.v1.Reports/";

/// The service, for a server that supports HTTP/2.
pub type ReportsService = ReportsServer<ServedReports>;

/// Maximum size of a request in bytes; requests are empty so far.
const MAX_REQUEST: usize = 4096;

/// Creates the service. A watch sends the latest report and every change that the reader is fast enough for, and ends
/// when the sender of the reports is dropped.
#[must_use]
pub fn service(reports: watch::Receiver<Arc<Report>>) -> ReportsService {
    ReportsServer::new(ServedReports { reports }).max_decoding_message_size(MAX_REQUEST)
}

/// Handler of the watch calls.
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
