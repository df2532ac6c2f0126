//! Requests at the front-ends, whatever they asked for.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weir_protocol::Code;

/// The front-end a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1 or HTTP/2 with JSON or binary bodies.
    Http,
    /// gRPC.
    Grpc,
}

/// Counts requests by front-end and outcome. Clones count the same.
#[derive(Clone, Debug)]
pub struct Requests {
    ended: Family<EndedLabels, Counter>,
    open: Family<OpenLabels, Gauge>,
}

/// One request under way. Dropped unfinished, it counts as cancelled: the caller went away.
#[derive(Debug)]
pub struct InFlight {
    requests: Requests,
    protocol: Protocol,
    code: &'static str,
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

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Self {
            ended: Family::default(),
            open: Family::default(),
        };
        let help = "Calls of any kind ended at the front-end, by protocol and outcome";
        registry.register("weir_runtime_requests", help, requests.ended.clone());
        let help = "Calls of any kind under way at the front-end, by protocol";
        registry.register(
            "weir_runtime_requests_in_flight",
            help,
            requests.open.clone(),
        );
        for protocol in [Protocol::Http, Protocol::Grpc] {
            requests.ended(protocol, "ok").inc_by(0);
            requests.open(protocol).set(0);
        }
        requests
    }

    /// Notes a request's begin.
    #[must_use]
    pub fn begin(&self, protocol: Protocol) -> InFlight {
        self.open(protocol).inc();
        InFlight {
            requests: self.clone(),
            protocol,
            code: Code::Cancelled.label(),
        }
    }

    fn ended(&self, protocol: Protocol, code: &'static str) -> Counter {
        let protocol = protocol.label();
        self.ended
            .get_or_create_owned(&EndedLabels { protocol, code })
    }

    fn open(&self, protocol: Protocol) -> Gauge {
        let protocol = protocol.label();
        self.open.get_or_create_owned(&OpenLabels { protocol })
    }
}

impl InFlight {
    /// Ends it: `None` is success.
    pub fn finish(mut self, code: Option<Code>) {
        self.code = code.map_or("ok", Code::label);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.requests.open(self.protocol).dec();
        self.requests.ended(self.protocol, self.code).inc();
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
