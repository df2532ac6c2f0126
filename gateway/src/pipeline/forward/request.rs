//! A routed request, and the requests that replicas and gateways get for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ACCEPT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Method, Uri};
use smallvec::SmallVec;
use weir_protocol::Blame;
use weir_protocol::grpc::timeout::format_timeout;
use weir_serve::header_names;

use super::batch_members::BatchMembers;
use crate::clock::now;
use crate::queue::{AdmissionRequest, Arrival, ClientShare, Origin, RevisionQueue, Task, Verdict};
use crate::rates::Meter;
use crate::router::Target;
use crate::upstream::{RequestBody, Upgrade, UpstreamRequest};
use crate::wire::deadline::Deadline;
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// A request that was routed to a revision.
pub(crate) struct ProxyRequest {
    pub(crate) protocol: Protocol,
    pub(crate) queue: Arc<RevisionQueue>,
    arrived: Instant,
    /// Time from which the request waits for a replica. The part of its body that the gateway buffers came before, at
    /// the client's pace.
    pub(crate) queued_since: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Verdict under which the request is counted if its deadline passes.
    pub(crate) missed: Verdict,
    pub(super) activation: Duration,
    arrival: Arrival,
    /// Replicas that had the request in a batch when their programs were ended from outside or for an unknown reason.
    pub(super) ended: u32,
    /// The requests of the batch that this request sends; `None` if this request is not a batch.
    pub(super) members: Option<BatchMembers>,
    origin: Origin,
    /// The client that is charged for the request.
    share: ClientShare,
    /// The client whose shares of the gateway's limits the request takes; `None` without access control.
    pub(crate) limited: Option<ClientShare>,
    /// Meter of the bytes and tokens of a request that its client is charged for.
    pub(super) meter: Option<Meter>,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    /// Protocol to which the client asks to switch the connection.
    pub(super) upgrade: Upgrade,
    /// The `:authority` of a gRPC call.
    authority: Option<Authority>,
    /// Path and query as the client sent them.
    whole: PathAndQuery,
    /// Path and query for the replica, without the service's prefix.
    pub(crate) path: PathAndQuery,
}

/// Headers that only gateways use, in requests or in responses.
static GATEWAY_ONLY_HEADERS: [HeaderName; 5] =
    [headers::HOP, headers::TAG, headers::REVISION, headers::REFUSED, headers::UNSERVED];

impl ProxyRequest {
    pub(crate) fn new(protocol: Protocol, parts: &mut Parts, target: Target, deadline: Deadline) -> Self {
        let upgrade = Upgrade::of(parts);
        let mut headers = std::mem::take(&mut parts.headers);
        let origin = if header_names::has(&headers, &headers::HOP) { Origin::Gateway } else { Origin::Client };
        headers::strip(&mut headers);
        let authority = match protocol {
            Protocol::Http => {
                set_host(&parts.uri, &mut headers);
                None
            }
            Protocol::Grpc => {
                let authority = authority(&parts.uri, &headers);
                headers.remove(HOST);
                Some(authority)
            }
        };
        let whole = origin_form(&parts.uri);
        Self {
            path: without_prefix(&whole, target.prefix),
            whole,
            authority,
            protocol,
            queue: target.queue,
            arrived: deadline.arrived,
            queued_since: now(),
            deadline: deadline.at,
            missed: missed(deadline.blame),
            activation: target.route.activation_timeout,
            arrival: Arrival::New,
            ended: 0,
            members: None,
            origin,
            share: target.share,
            limited: None,
            meter: None,
            method: parts.method.clone(),
            headers,
            upgrade,
        }
    }

    /// Returns a copy for the mirroring revision with this `queue`, whose deadline is at most `latest`.
    pub(super) fn mirrored(&self, queue: Arc<RevisionQueue>, latest: Instant) -> Self {
        let mut headers = self.headers.clone();
        headers.insert(headers::MIRROR, HeaderValue::from_static("1"));
        Self {
            protocol: self.protocol,
            queue,
            arrived: self.arrived,
            queued_since: self.queued_since,
            deadline: Some(self.deadline.map_or(latest, |deadline| deadline.min(latest))),
            // `Uncounted` is the verdict only on a deadline that is shorter than the limit for copies. The limit
            // changes no such deadline, so the verdict holds for the copy, too.
            missed: self.missed,
            activation: self.activation,
            origin: self.origin,
            share: self.share,
            limited: self.limited,
            meter: None,
            method: self.method.clone(),
            headers,
            upgrade: Upgrade::None,
            arrival: self.arrival,
            ended: self.ended,
            members: None,
            authority: self.authority.clone(),
            whole: self.whole.clone(),
            path: self.path.clone(),
        }
    }

    /// True if another gateway has handed the request over.
    pub(super) fn is_handed_over(&self) -> bool {
        self.origin == Origin::Gateway
    }

    /// True if the request stands for the requests of a batch.
    pub(super) fn is_batch(&self) -> bool {
        self.members.is_some()
    }

    /// Records that the request's arrival is already counted.
    pub(crate) fn count_as_arrived(&mut self) {
        self.arrival = Arrival::Counted;
    }

    /// Records that the request's queue time is already counted too, because its batch was at a replica.
    pub(crate) fn count_as_queued(&mut self) {
        self.arrival = Arrival::QueueTimeRecorded;
    }

    /// Charges the client by this meter. The replica gets no choice of a content coding if tokens count, because they
    /// are read from the response.
    pub(crate) fn meter_by(&mut self, meter: &Meter) {
        if meter.counts_tokens() {
            self.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        self.meter = Some(meter.clone());
    }

    /// Counts a replica whose program ended while it had the request in a batch.
    pub(crate) fn count_ended_replica(&mut self) {
        self.ended = self.ended.saturating_add(1);
    }

    /// Creates the request that sends a whole batch, with these headers and times: it counts as arrived at
    /// `queued_since`. Verdicts and limits treat it as a client's request.
    pub(crate) fn for_batch(
        &self,
        headers: HeaderMap,
        queued_since: Instant,
        deadline: Option<Instant>,
        members: BatchMembers,
    ) -> Self {
        Self {
            headers,
            upgrade: Upgrade::None,
            arrived: queued_since,
            queued_since,
            ended: 0,
            deadline,
            members: Some(members),
            // Unused: each request of the batch is counted on its own.
            missed: Verdict::Failed,
            protocol: self.protocol,
            queue: Arc::clone(&self.queue),
            activation: self.activation,
            arrival: Arrival::Counted,
            origin: Origin::Client,
            // A batch has requests of one client only, because their headers are equal.
            share: self.share,
            limited: self.limited,
            // Each request of the batch has its own meter.
            meter: None,
            method: self.method.clone(),
            authority: self.authority.clone(),
            whole: self.whole.clone(),
            path: self.path.clone(),
        }
    }

    /// Returns the authority and path, which all requests of one batch have in common.
    pub(crate) fn address(&self) -> String {
        let authority = self.authority.as_ref().map_or("", Authority::as_str);
        format!("{authority}{}", self.path)
    }

    /// Returns the request for a credit, with the sequence number from an earlier admission, if any.
    pub(super) fn admission(&self, sequence: Option<u64>, bytes: usize) -> AdmissionRequest {
        AdmissionRequest {
            sequence,
            arrival: self.arrival,
            bytes,
            origin: self.origin,
            task: task_of_path(self.path.path()),
            queued_since: self.queued_since,
            deadline: self.deadline,
            activation: self.activation,
            share: self.share,
            limited: self.limited,
        }
    }

    /// Returns the request that a replica gets.
    pub(crate) fn to_replica(&self, body: RequestBody) -> UpstreamRequest<'_> {
        self.upstream_request(&self.path, &GATEWAY_ONLY_HEADERS, body)
    }

    /// Returns the request for the gateway that owns the queue, pinned to the same revision.
    pub(super) fn to_gateway(&self, body: RequestBody) -> UpstreamRequest<'_> {
        let mut upstream_request = self.upstream_request(&self.whole, &[], body);
        let hop = match self.missed {
            Verdict::Uncounted => headers::HOP_CLIENT_DEADLINE,
            Verdict::Succeeded | Verdict::Failed | Verdict::Refused | Verdict::Open => headers::HOP_PLAIN,
        };
        upstream_request.with.extend([(headers::HOP, hop), (headers::REVISION, self.queue.header.clone())]);
        upstream_request
    }

    fn upstream_request<'a>(
        &'a self,
        path: &'a PathAndQuery,
        without: &'static [HeaderName],
        body: RequestBody,
    ) -> UpstreamRequest<'a> {
        let now = now();
        let waited = now.saturating_duration_since(self.arrived).as_micros();
        let mut waited = HeaderValue::from(u64::try_from(waited).unwrap_or(u64::MAX));
        waited.set_sensitive(true);
        let mut with = SmallVec::new();
        with.push((headers::WAITED, waited));
        with.extend(self.deadline.and_then(|deadline| self.left(deadline, now)));
        UpstreamRequest {
            authority: self.authority.as_ref(),
            without,
            with,
            upgrade: self.upgrade,
            ..UpstreamRequest::plain(&self.method, path, &self.headers, body)
        }
    }

    /// Returns the header with the time left until the deadline.
    fn left(&self, deadline: Instant, now: Instant) -> Option<(HeaderName, HeaderValue)> {
        let left = deadline.saturating_duration_since(now);
        // Other gateways accept at most `u32::MAX` milliseconds, which is 49 days.
        let ms = left.as_millis().min(u32::MAX.into());
        let (name, text) = match self.protocol {
            Protocol::Http => (headers::TIMEOUT, ms.to_string()),
            Protocol::Grpc => (headers::GRPC_TIMEOUT, format_timeout(left)),
        };
        Some((name, HeaderValue::try_from(text).ok()?))
    }
}

/// Returns the verdict on a request whose deadline passes, by the party to blame.
fn missed(blame: Blame) -> Verdict {
    match blame {
        Blame::Caller => Verdict::Uncounted,
        Blame::Load | Blame::Server => Verdict::Failed,
    }
}

/// Sets the `Host` header from the request target, which takes precedence (RFC 9112, 3.2.2).
fn set_host(uri: &Uri, headers: &mut HeaderMap) {
    if uri.authority().is_some() || !header_names::has(headers, &HOST) {
        let authority = authority(uri, headers);
        if let Ok(host) = HeaderValue::try_from(without_user(&authority)) {
            headers.insert(HOST, host);
        }
    }
}

/// Returns the task of a request by the end of its path: that of OpenAI's API, of Text Generation Inference or of
/// Triton's generate extension.
fn task_of_path(path: &str) -> Task {
    const ENDS: [&str; 5] = ["/completions", "/v1/responses", "/v1/messages", "/generate", "/generate_stream"];
    if ENDS.iter().any(|end| path.ends_with(end)) { Task::GenerateText } else { Task::Other }
}

/// Returns the path and query for the replica. A target that names its host may have a query without a path (RFC 9112,
/// 3.2.1).
fn origin_form(uri: &Uri) -> PathAndQuery {
    let root = PathAndQuery::from_static("/");
    match uri.path_and_query() {
        Some(whole) if whole.as_str().starts_with('?') => {
            PathAndQuery::try_from(format!("/{}", whole.as_str())).unwrap_or(root)
        }
        Some(whole) => whole.clone(),
        None => root,
    }
}

fn authority(uri: &Uri, headers: &HeaderMap) -> Authority {
    let of_header = || headers.get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
    let authority = uri.authority().cloned().or_else(of_header);
    authority.unwrap_or(Authority::from_static("localhost"))
}

fn without_user(authority: &Authority) -> &str {
    let whole = authority.as_str();
    whole.rsplit_once('@').map_or(whole, |(_, host)| host)
}

/// Returns the path without its first `prefix` bytes.
fn without_prefix(whole: &PathAndQuery, prefix: usize) -> PathAndQuery {
    let rest = whole.as_str().get(prefix..).unwrap_or_default();
    let path = match (prefix, rest.starts_with('/')) {
        (0, _) => return whole.clone(),
        (_, true) => PathAndQuery::try_from(rest),
        (_, false) => PathAndQuery::try_from(format!("/{rest}")),
    };
    path.unwrap_or(PathAndQuery::from_static("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_end_like_those_of_text_servers_ask_for_text() {
        for path in ["/v1/chat/completions", "/openai/v1/completions", "/v2/models/m/generate_stream", "/generate"] {
            assert_eq!(task_of_path(path), Task::GenerateText, "{path}");
        }
        for path in ["/", "/v1/embeddings", "/v2/models/generate/infer", "/v1/models/m:predict"] {
            assert_eq!(task_of_path(path), Task::Other, "{path}");
        }
    }

    #[test]
    fn a_replica_sees_the_path_behind_the_prefix() {
        let seen = |whole: &'static str, prefix| without_prefix(&PathAndQuery::from_static(whole), prefix).to_string();
        let whole = "/serving/n/m/v2/models?x=1";
        assert_eq!(seen(whole, 12), "/v2/models?x=1");
        assert_eq!(seen(whole, 0), whole);
        assert_eq!(seen("/serving/n/m?x", 12), "/?x");
    }
}
