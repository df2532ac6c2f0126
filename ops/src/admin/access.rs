//! Decides which requests the admin port answers.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use super::CallerCheck;
use weir_serve::known_hosts::KnownHosts;

/// Conditions that a request must meet to be answered.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) hosts: KnownHosts,
    /// Predicate on the callers that may read the metrics; `None` allows every caller.
    pub(super) metrics_for: Option<CallerCheck>,
}

impl Access {
    /// Returns the response that refuses the request, or `None` if the request may be answered.
    pub(super) fn refusal(&self, parts: &Parts) -> Option<Response> {
        if let Err(foreign) = self.hosts.check(parts, |_| false) {
            return Some((StatusCode::FORBIDDEN, format!("{foreign}\n")).into_response());
        }
        let is_metrics = parts.uri.path().trim_end_matches('/') == "/metrics";
        let callers = self.metrics_for.as_ref().filter(|_| is_metrics);
        match callers {
            Some(callers) if !callers(&parts.headers) => {
                let text = "the metrics are restricted to callers with a key\n";
                Some((StatusCode::FORBIDDEN, text).into_response())
            }
            Some(_) | None => None,
        }
    }
}
