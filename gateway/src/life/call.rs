//! A request that knows its service, and its form for each replica it is sent to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri};

use super::Target;
use crate::clock::now;
use crate::deadline::{Due, grpc_timeout};
use crate::desk::Origin;
use crate::headers;
use crate::line::{Arrival, Ask, Line};
use crate::outgoing::Outgoing;
use crate::wire::Wire;

/// A request on its way.
pub(crate) struct Call {
    pub(crate) wire: Wire,
    pub(crate) line: Arc<Line>,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(super) activation: Duration,
    arrival: Arrival,
    /// When the others of its batch came, if it is one.
    pub(super) others: Option<Arc<[Instant]>>,
    origin: Origin,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    /// As it came.
    uri: Uri,
    /// As the replica shall see it.
    pub(crate) stripped: Uri,
}

impl Call {
    pub(super) fn new(wire: Wire, parts: Parts, target: Target, due: Due) -> Self {
        let Parts {
            method,
            uri,
            mut headers,
            ..
        } = parts;
        let origin = match headers.contains_key(headers::HOP) {
            true => Origin::Gateway,
            false => Origin::Client,
        };
        headers::strip(&mut headers);
        let authority = authority(&uri, &headers);
        if wire == Wire::Grpc {
            headers.remove(HOST);
        } else if (uri.authority().is_some() || !headers.contains_key(HOST))
            && let Ok(host) = HeaderValue::try_from(without_user(&authority))
        {
            // A target that names its host is the one that counts (RFC 9112, 3.2.2).
            headers.insert(HOST, host);
        }
        Self {
            stripped: at(wire, &uri, target.prefix, &authority),
            uri: at(wire, &uri, 0, &authority),
            wire,
            line: target.line,
            arrived: due.arrived,
            deadline: due.at,
            activation: target.route.activation_timeout,
            arrival: Arrival::New,
            others: None,
            origin,
            method,
            headers,
        }
    }

    /// The same for the revision of `line`, which mirrors the service, done at `latest`.
    pub(super) fn copied(&self, line: Arc<Line>, latest: Instant) -> Self {
        let mut headers = self.headers.clone();
        headers.insert(headers::MIRROR, HeaderValue::from_static("1"));
        Self {
            wire: self.wire,
            line,
            arrived: self.arrived,
            deadline: Some(
                self.deadline
                    .map_or(latest, |deadline| deadline.min(latest)),
            ),
            activation: self.activation,
            origin: self.origin,
            method: self.method.clone(),
            headers,
            arrival: self.arrival,
            others: None,
            uri: self.uri.clone(),
            stripped: self.stripped.clone(),
        }
    }

    /// It was counted before it is sent.
    pub(crate) fn count_as_arrived(&mut self) {
        self.arrival = Arrival::Counted;
    }

    /// One for a batch that it is of, with the headers and times of that. Whoever gathered it here asks as
    /// a client does.
    pub(crate) fn for_batch(
        &self,
        headers: HeaderMap,
        arrived: Instant,
        deadline: Option<Instant>,
        others: Arc<[Instant]>,
    ) -> Self {
        Self {
            headers,
            arrived,
            deadline,
            others: Some(others),
            wire: self.wire,
            line: Arc::clone(&self.line),
            activation: self.activation,
            arrival: Arrival::Counted,
            origin: Origin::Client,
            method: self.method.clone(),
            uri: self.uri.clone(),
            stripped: self.stripped.clone(),
        }
    }

    /// What it asks of its revision's desk; `place` if it was there before.
    pub(super) fn ask(&self, place: Option<u64>, bytes: usize) -> Ask {
        Ask {
            place,
            arrival: self.arrival,
            bytes,
            origin: self.origin,
            arrived: self.arrived,
            deadline: self.deadline,
            activation: self.activation,
        }
    }

    /// For a replica.
    pub(super) fn to_replica(&self, body: Outgoing) -> Request<Outgoing> {
        let mut request = self.request(&self.stripped, body);
        for name in [headers::HOP, headers::TAG, headers::REVISION] {
            request.headers_mut().remove(name);
        }
        request
    }

    /// For the gateway that owns the queue: it finds the same revision again.
    pub(super) fn to_gateway(&self, body: Outgoing) -> Request<Outgoing> {
        let mut request = self.request(&self.uri, body);
        let headers = request.headers_mut();
        headers.insert(headers::HOP, HeaderValue::from_static("1"));
        headers.insert(headers::REVISION, self.line.header.clone());
        request
    }

    fn request(&self, uri: &Uri, body: Outgoing) -> Request<Outgoing> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = self.headers.clone();
        if self.wire == Wire::Grpc {
            *request.version_mut() = http::Version::HTTP_2;
            request.headers_mut().remove(CONTENT_LENGTH);
        }
        self.add_times(request.headers_mut());
        request
    }

    /// How long it waited, and how long it has left.
    fn add_times(&self, headers: &mut HeaderMap) {
        let now = now();
        let waited = now.saturating_duration_since(self.arrived).as_micros();
        let mut waited = HeaderValue::from(u64::try_from(waited).unwrap_or(u64::MAX));
        waited.set_sensitive(true);
        headers.insert(headers::WAITED, waited);
        let Some(deadline) = self.deadline else {
            return;
        };
        let left = deadline.saturating_duration_since(now);
        let (name, text) = match self.wire {
            Wire::Http => (headers::TIMEOUT, left.as_millis().to_string()),
            Wire::Grpc => (headers::GRPC_TIMEOUT, grpc_timeout(left)),
        };
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
}

fn authority(uri: &Uri, headers: &HeaderMap) -> Authority {
    let of_header = || {
        headers
            .get(HOST)
            .and_then(|host| host.to_str().ok()?.parse().ok())
    };
    let authority = uri.authority().cloned().or_else(of_header);
    authority.unwrap_or(Authority::from_static("localhost"))
}

fn without_user(authority: &Authority) -> &str {
    let whole = authority.as_str();
    whole.rsplit_once('@').map_or(whole, |(_, host)| host)
}

/// HTTP/1.1 wants the path alone, HTTP/2 all of it.
fn at(wire: Wire, uri: &Uri, prefix: usize, authority: &Authority) -> Uri {
    let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let rest = whole.get(prefix..).unwrap_or_default();
    let path = match (prefix, rest.starts_with('/')) {
        (0, _) => uri.path_and_query().cloned(),
        (_, true) => PathAndQuery::try_from(rest).ok(),
        (_, false) => PathAndQuery::try_from(format!("/{rest}")).ok(),
    };
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
    if wire == Wire::Grpc {
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(authority.clone());
    }
    // All parts are valid, and complete for their form.
    Uri::from_parts(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_sees_the_path_behind_the_prefix() {
        let authority = Authority::from_static("a.b");
        let uri = Uri::from_static("/serving/n/m/v2/models?x=1");
        let plain = |uri: &Uri, prefix| at(Wire::Http, uri, prefix, &authority).to_string();
        assert_eq!(plain(&uri, 12), "/v2/models?x=1");
        assert_eq!(plain(&uri, 0), "/serving/n/m/v2/models?x=1");
        assert_eq!(plain(&Uri::from_static("/serving/n/m?x"), 12), "/?x");
        let grpc = at(Wire::Grpc, &Uri::from_static("/a.B/C"), 0, &authority);
        assert_eq!(grpc.to_string(), "http://a.b/a.B/C");
    }
}
