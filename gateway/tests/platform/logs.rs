//! Tests of the lines in a gateway's log about revisions that fail.

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::client::{once, post};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, World};

/// Collects the warnings of this thread, each as the text of its fields.
#[derive(Clone, Debug, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

/// Text of the fields of one event.
#[derive(Default)]
struct Fields(String);

impl Warnings {
    fn record() -> (Self, DefaultGuard) {
        let warnings = Self::default();
        let guard = tracing::subscriber::set_default(warnings.clone());
        (warnings, guard)
    }

    /// Returns the warnings with this text among their fields.
    fn with(&self, field: &str) -> Vec<String> {
        let all = self.0.lock();
        let found = all.iter().filter(|line| line.contains(field));
        found.cloned().collect()
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("weir_gateway")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

// The gateway runs on the test's own thread, whose warnings are recorded.
#[tokio::test]
async fn refused_connections_log_one_line_for_the_attempts_and_one_for_the_requests() {
    let world = World::new(1).await;
    let short = Duration::from_millis(100);
    world.serve(&[100], |route| route.activation_timeout = short).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    world.put(1, "a", address).await;
    let (warnings, _guard) = Warnings::record();
    for _ in 0..3 {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    }
    let (tries, requests) = (warnings.with("cause=\"connect_failed\""), warnings.with("cause=\"unavailable\""));
    assert_eq!((tries.len(), requests.len()), (1, 1), "{warnings:?}");
    for part in ["revision=default/digits-predictor-00001", "left_out=0", "replica a"] {
        assert!(tries[0].contains(part), "{tries:?}");
    }
}

#[tokio::test]
async fn a_replica_that_answers_every_request_with_an_error_logs_one_line() {
    let (world, _replica) = World::with(Behaviour::Fail).await;
    let (warnings, _guard) = Warnings::record();
    for _ in 0..3 {
        let answer = once(world.address(), post(HOST, "/", "x")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    }
    world.activity(1, |activity| activity.failed == 3).await;
    assert_eq!(warnings.with("").len(), 1, "{warnings:?}");
    assert_eq!(warnings.with("cause=\"error_response\"").len(), 1);
}

#[tokio::test]
async fn successful_requests_are_not_logged() {
    let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
    let world = World::serving().await;
    world.put(1, "a", replica.address).await;
    let (warnings, _guard) = Warnings::record();
    once(world.address(), post(HOST, "/", "x")).await;
    world.activity(1, |activity| activity.succeeded == 1).await;
    assert_eq!(warnings.with(""), Vec::<String>::new());
}
