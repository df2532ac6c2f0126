//! Configuration of a replica, from environment variables.

use std::path::PathBuf;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::responses::{self, ResponseBody};
use crate::shared_dir::{Fault, SharedDir};

/// Variable that makes this binary a server, and holds its label.
pub(crate) const LABEL: &str = "WEIR_TEST_REPLICA";

/// Variable with the path of a file for which inferences wait.
pub(crate) const GATE: &str = "WEIR_TEST_GATE";

/// Variable with the time of an inference, in milliseconds; it uses no processor.
pub(crate) const SERVICE_MS: &str = "WEIR_TEST_SERVICE_MS";

/// Variable with the path of the directory that replicas share with the test.
pub(crate) const SHARED_DIR: &str = "WEIR_TEST_SHARED_DIR";

/// Interval at which files are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Configuration of a replica.
pub(super) struct ReplicaConfig {
    pub(super) port: u16,
    label: String,
    gate: Option<PathBuf>,
    service: Duration,
    shared: Option<SharedDir>,
}

impl ReplicaConfig {
    /// Reads the environment; `None` if this process is not a replica.
    pub(super) fn from_environment() -> Option<Self> {
        let text = |name| std::env::var_os(name).map(|value| value.into_string().unwrap());
        let number = |name| text(name).map(|value| value.parse::<u64>().unwrap());
        Some(Self {
            label: text(LABEL)?,
            port: text("PORT").unwrap().parse().unwrap(),
            gate: text(GATE).map(PathBuf::from),
            service: Duration::from_millis(number(SERVICE_MS).unwrap_or(0)),
            shared: text(SHARED_DIR).map(SharedDir::at),
        })
    }

    /// Records in the shared directory that this process is serving.
    pub(super) fn report_serving(&self) {
        if let Some(shared) = &self.shared {
            shared.add_serving(std::process::id());
        }
    }

    /// Returns the fault that is injected at present.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.shared.as_ref()?.fault_of(std::process::id())
    }

    pub(super) async fn wait_for_event_release(&self) {
        while self.shared.as_ref().is_some_and(|shared| !shared.are_events_released()) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reads a request, waits for the service time, and responds.
    pub(super) async fn work(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            // The client has closed the connection.
            return std::future::pending().await;
        };
        let id = head.headers.get("x-request-id");
        let id = id.map_or("", |id| id.to_str().unwrap());
        if let Some(shared) = &self.shared {
            shared.add_request(std::process::id(), id);
        }
        let is_shut = || self.gate.as_ref().is_some_and(|gate| !gate.exists());
        while is_shut() || self.fault() == Some(Fault::Hang) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tokio::time::sleep(self.service).await;
        if head.headers.contains_key("te") { responses::grpc(body.to_bytes()) } else { responses::label(&self.label) }
    }
}
