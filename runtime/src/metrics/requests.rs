//! Counters of all calls at the front-ends.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weir_protocol::Code;

/// The front-end that a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1 or HTTP/2 with JSON or binary bodies.
    Http,
    /// gRPC, always over HTTP/2.
    Grpc,
}

/// Counts requests by front-end and outcome. Clones share the same counters.
#[derive(Clone, Debug)]
pub struct Requests {
    http: Arc<Counts>,
    grpc: Arc<Counts>,
}

/// The counters of one front-end, looked up once so that requests take no lock.
#[derive(Debug)]
struct Counts {
    open: Gauge,
    ok: Counter,
    failed: Vec<(Code, Counter)>,
}

/// A request in flight. If it is dropped before it is finished, it counts as cancelled, because the client left.
#[derive(Debug)]
pub struct InFlight {
    counts: Arc<Counts>,
    /// The failure, which is a cancellation until the request is finished; `None` after success.
    code: Option<Code>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    protocol: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpenLabels {
    protocol: &'static str,
}

type Ended = Family<EndedLabels, Counter>;
type Open = Family<OpenLabels, Gauge>;

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (ended, open) = (Ended::default(), Open::default());
        let help = "Finished calls of every kind at the front-end, by protocol and outcome";
        registry.register("weir_runtime_requests", help, ended.clone());
        let help = "Calls of every kind in flight at the front-end, by protocol";
        registry.register("weir_runtime_requests_in_flight", help, open.clone());
        let counts = |protocol| Arc::new(Counts::new(protocol, &ended, &open));
        Self { http: counts(Protocol::Http), grpc: counts(Protocol::Grpc) }
    }

    /// Counts a request that begins.
    #[must_use]
    pub fn begin(&self, protocol: Protocol) -> InFlight {
        let counts = match protocol {
            Protocol::Http => &self.http,
            Protocol::Grpc => &self.grpc,
        };
        counts.open.inc();
        InFlight { counts: Arc::clone(counts), code: Some(Code::Cancelled) }
    }
}

impl Counts {
    fn new(protocol: Protocol, ended: &Ended, open: &Open) -> Self {
        let protocol = protocol.label();
        let ended = |code| ended.get_or_create_owned(&EndedLabels { protocol, code });
        Self {
            open: open.get_or_create_owned(&OpenLabels { protocol }),
            ok: ended("ok"),
            failed: Code::ALL.map(|code| (code, ended(code.label()))).to_vec(),
        }
    }

    fn ended(&self, code: Option<Code>) -> &Counter {
        let Some(code) = code else { return &self.ok };
        let known = self.failed.iter().find(|(known, _)| *known == code);
        known.map_or(&self.ok, |(_, counter)| counter)
    }
}

impl InFlight {
    /// Counts the end of the request; `None` means success.
    pub fn finish(mut self, code: Option<Code>) {
        self.code = code;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.counts.open.dec();
        self.counts.ended(self.code).inc();
    }
}

impl Protocol {
    const fn label(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}
