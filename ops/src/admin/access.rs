//! Decides which requests the admin port answers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};

use super::{CallerCheck, TokenFile};
use weir_serve::known_hosts::KnownHosts;

/// Pages for probes, which need no token.
const PROBES: [&str; 2] = ["/health", "/ready"];

/// Conditions that a request must meet to be answered.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) hosts: KnownHosts,
    /// Tokens of which requests from other machines need one; `None` if they need none.
    pub(super) token: Option<Arc<TokenFile>>,
    /// Predicate on the callers that may read the metrics; `None` allows every caller.
    pub(super) metrics_for: Option<CallerCheck>,
}

impl Access {
    /// Returns the response that refuses a request from the address `from`, or `None` if the request may be answered.
    pub(super) fn refusal(&self, parts: &Parts, from: Option<IpAddr>) -> Option<Response> {
        if let Err(foreign) = self.hosts.check(parts, |_| false) {
            return Some((StatusCode::FORBIDDEN, format!("{foreign}\n")).into_response());
        }
        let path = parts.uri.path().trim_end_matches('/');
        if let Some(tokens) = &self.token
            && !PROBES.contains(&path)
            && !is_local(from)
            && !tokens.is_in(&parts.headers)
        {
            let text = "this port needs a token from other machines: Authorization: Bearer TOKEN\n";
            return Some((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response());
        }
        let callers = self.metrics_for.as_ref().filter(|_| path == "/metrics");
        match callers {
            Some(callers) if !callers(&parts.headers) => {
                let text = "the metrics are restricted to callers with a key\n";
                Some((StatusCode::FORBIDDEN, text).into_response())
            }
            Some(_) | None => None,
        }
    }
}

/// Returns true for an address of this machine, or, in a cluster, of the same pod.
fn is_local(from: Option<IpAddr>) -> bool {
    from.is_some_and(|from| from.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http::Request;

    use super::*;

    fn status(access: &Access, path: &str, from: &str, token: Option<&str>) -> StatusCode {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let refusal = access.refusal(&parts, from.parse().ok());
        refusal.map_or(StatusCode::OK, |response| response.status())
    }

    #[test]
    fn other_machines_need_a_token_except_for_probes() {
        const TOKEN: &str = "0123456789abcdef";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, TOKEN).unwrap();
        let token = Some(Arc::new(TokenFile::open(&path).unwrap()));
        let access = Access { hosts: KnownHosts::Any, token, metrics_for: None };
        let pages =
            ["/", "/metrics", "/metrics/", "/routes", "/weir.v1.Reports/Watch", "/health/x", "/healthy", "//ready"];
        for page in pages {
            for from in ["10.0.0.7", "::ffff:10.0.0.7", "2001:db8::1", "unknown"] {
                assert_eq!(status(&access, page, from, None), StatusCode::UNAUTHORIZED, "{page} {from}");
                assert_eq!(status(&access, page, from, Some("0123456789abcdee")), StatusCode::UNAUTHORIZED);
                assert_eq!(status(&access, page, from, Some(TOKEN)), StatusCode::OK, "{page} {from}");
            }
            for from in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(status(&access, page, from, None), StatusCode::OK, "{page} {from}");
            }
        }
        for page in ["/health", "/ready", "/health/", "/ready?verbose"] {
            assert_eq!(status(&access, page, "10.0.0.7", None), StatusCode::OK, "{page}");
        }
        let open = Access { token: None, ..access };
        assert_eq!(status(&open, "/metrics", "10.0.0.7", None), StatusCode::OK);
    }
}
