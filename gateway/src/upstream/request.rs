//! A request to an upstream: the client's request with some headers replaced. Headers are copied only once the
//! upstream's HTTP version is known.

use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri, Version};
use smallvec::SmallVec;

use crate::upstream::{RequestBody, Upgrade};

/// A request to a replica or another gateway.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a PathAndQuery,
    /// HTTP/2's `:authority`, in place of a `Host` header.
    pub(crate) authority: Option<&'a Authority>,
    /// The client's headers, including some that are omitted or replaced.
    pub(crate) headers: &'a HeaderMap,
    /// Names of client headers that are not sent.
    pub(crate) without: &'static [HeaderName],
    /// Headers that are added or that replace the client's.
    pub(crate) with: SmallVec<[(HeaderName, HeaderValue); 4]>,
    pub(crate) body: RequestBody,
    /// Protocol to which the connection should switch. HTTP/2 ignores it.
    pub(crate) upgrade: Upgrade,
}

impl<'a> UpstreamRequest<'a> {
    /// Creates a request with exactly these headers.
    pub(crate) fn plain(method: &'a Method, path: &'a PathAndQuery, headers: &'a HeaderMap, body: RequestBody) -> Self {
        Self {
            method,
            path,
            authority: None,
            headers,
            without: &[],
            with: SmallVec::new(),
            body,
            upgrade: Upgrade::None,
        }
    }

    /// Returns the headers that are sent.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        let is_omitted =
            |name: &HeaderName| self.without.contains(name) || self.with.iter().any(|(other, _)| other == name);
        let kept = self.headers.iter().filter(move |(name, _)| !is_omitted(name));
        kept.chain(self.with.iter().map(|(name, value)| (name, value)))
    }

    /// Converts the request for HTTP/2, without `content-length`, because frames delimit the body.
    pub(crate) fn into_http2(self) -> Request<RequestBody> {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + self.with.len());
        let host = self.headers.get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
        let is_sent = |name: &HeaderName| *name != CONTENT_LENGTH && *name != HOST;
        for (name, value) in self.lines().filter(|(name, _)| is_sent(name)) {
            headers.append(name, value.clone());
        }
        let mut parts = http::uri::Parts::default();
        parts.path_and_query = Some(self.path.clone());
        parts.scheme = Some(Scheme::HTTP);
        let authority = self.authority.cloned().or(host);
        parts.authority = Some(authority.unwrap_or(Authority::from_static("localhost")));
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method.clone();
        // This cannot fail, because all parts are set.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        *request.headers_mut() = headers;
        *request.version_mut() = Version::HTTP_2;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::headers;

    #[test]
    fn headers_are_omitted_or_replaced() {
        let mut came = HeaderMap::new();
        for (name, value) in
            [("accept", "a"), ("weir-tag", "t"), ("weir-waited-us", "9"), ("accept", "b"), ("content-length", "3")]
        {
            came.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let path = PathAndQuery::from_static("/a.B/C");
        static WITHOUT: [HeaderName; 1] = [headers::TAG];
        let upstream_request = UpstreamRequest {
            without: &WITHOUT,
            with: SmallVec::from_iter([(headers::WAITED, HeaderValue::from_static("1"))]),
            ..UpstreamRequest::plain(&Method::POST, &path, &came, RequestBody::empty())
        };
        let lines = |lines: &mut dyn Iterator<Item = (&HeaderName, &HeaderValue)>| -> Vec<String> {
            let text = lines.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            text.collect()
        };
        let plain = lines(&mut upstream_request.lines());
        let kept = ["accept: a", "accept: b", "content-length: 3", "weir-waited-us: 1"];
        assert_eq!(plain, kept);
        let call = upstream_request.into_http2();
        assert_eq!(call.uri(), "http://localhost/a.B/C");
        let kept = ["accept: a", "accept: b", "weir-waited-us: 1"];
        assert_eq!(lines(&mut call.headers().iter()), kept);
    }
}
