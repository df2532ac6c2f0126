//! What a replica was told to be.

use std::path::PathBuf;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::answers::{self, Body};
use crate::field::{Fault, Field};

/// Set where this binary is to be a server: its label.
pub(crate) const LABEL: &str = "WEIR_TEST_REPLICA";

/// Set where inferences wait until there is a file of this name.
pub(crate) const GATE: &str = "WEIR_TEST_GATE";

/// Set where an inference takes its time: so many milliseconds, and no processor.
pub(crate) const SERVICE_MS: &str = "WEIR_TEST_SERVICE_MS";

/// Set where replicas tell what they do, and are told their faults: a directory.
pub(crate) const FIELD: &str = "WEIR_TEST_FIELD";

/// Between two looks at a file that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a replica was told to be.
pub(super) struct Traits {
    pub(super) port: u16,
    label: String,
    gate: Option<PathBuf>,
    service: Duration,
    field: Option<Field>,
}

impl Traits {
    /// None where this process is no replica.
    pub(super) fn of_environment() -> Option<Self> {
        let text = |name| std::env::var_os(name).map(|value| value.into_string().unwrap());
        let number = |name| text(name).map(|value| value.parse::<u64>().unwrap());
        Some(Self {
            label: text(LABEL)?,
            port: text("PORT").unwrap().parse().unwrap(),
            gate: text(GATE).map(PathBuf::from),
            service: Duration::from_millis(number(SERVICE_MS).unwrap_or(0)),
            field: text(FIELD).map(Field::at),
        })
    }

    /// Tells the field that this process serves.
    pub(super) fn tell_field(&self) {
        if let Some(field) = &self.field {
            field.enter(std::process::id());
        }
    }

    /// The fault it is to have now.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.field.as_ref()?.fault_of(std::process::id())
    }

    pub(super) async fn until_next_event(&self) {
        while self.field.as_ref().is_some_and(|field| !field.is_next()) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Reads a request, waits its time, and answers.
    pub(super) async fn work(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            // Who asked has left.
            return std::future::pending().await;
        };
        let id = head.headers.get("x-request-id");
        let id = id.map_or("", |id| id.to_str().unwrap());
        if let Some(field) = &self.field {
            field.began(std::process::id(), id);
        }
        let is_shut = || self.gate.as_ref().is_some_and(|gate| !gate.exists());
        while is_shut() || self.fault() == Some(Fault::Hang) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        tokio::time::sleep(self.service).await;
        match head.headers.contains_key("te") {
            true => answers::grpc(body.to_bytes()),
            false => answers::label(&self.label),
        }
    }
}
