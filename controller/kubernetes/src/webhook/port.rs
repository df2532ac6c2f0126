//! Port of the webhook. Everything in the cluster can reach it, so the cost of a connection, of a body and of all
//! bodies together is bounded.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::Semaphore;
use weir_serve::byte_budget::ByteBudget;
use weir_serve::{ConnectionLimits, Pace};

use super::metrics::{Outcome, WebhookMetrics};
use super::rules::Rules;
use super::verdict::Verdict;
use super::{request, response};

/// Path of reviews, as in the chart.
const PATH: &str = "/validate";

/// Limits on the connections. Each API server keeps a few, and in some clusters all come from one address. Stalled and
/// slow connections end within seconds, because an API server gives up after the `timeoutSeconds` of the webhook
/// configuration anyway.
pub(super) const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 64,
    per_client: 32,
    idle: Duration::from_secs(60),
    stall: Duration::from_secs(5),
    pace: Pace { grace: Duration::from_secs(5), rate: 64 * 1024 },
};

/// Largest body in bytes: etcd stores objects of up to 1.5 MiB, and a review contains the old and the new object.
const MAX_BODY: usize = 4 << 20;

/// Byte limit of all bodies together.
const MAX_BODIES: usize = 4 * MAX_BODY;

/// Most values in a body, counted by their separators: a parsed value takes some hundred bytes, and the chart gives the
/// controller 512 MiB.
const MAX_VALUES: usize = 300_000;

/// Concurrent reviews: parsed values are many times as large as their text, and a common review takes a millisecond.
const AT_ONCE: usize = 2;

/// Deadline of an answer; an API server waits at most 30 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// State that all requests share.
#[derive(Clone)]
struct Reviews {
    rules: Arc<Rules>,
    bodies: ByteBudget,
    places: Arc<Semaphore>,
    metrics: WebhookMetrics,
}

/// Result of a review: its outcome and its JSON, or a status and a message that says why there is none.
type Reviewed = Result<(Outcome, Value), (StatusCode, String)>;

/// Returns the router for reviews.
pub(super) fn router(rules: Rules, metrics: WebhookMetrics) -> Router {
    let reviews = Reviews {
        rules: Arc::new(rules),
        bodies: ByteBudget::new(MAX_BODIES),
        places: Arc::new(Semaphore::new(AT_ONCE)),
        metrics,
    };
    let answer = async move |request: Request| reviews.answer(request).await;
    Router::new().route(PATH, post(answer))
}

impl Reviews {
    async fn answer(self, request: Request) -> Response {
        let mut recording = self.metrics.begin();
        let reviewing = tokio::time::timeout(ANSWER_WITHIN, self.review(request.into_body()));
        match reviewing.await.unwrap_or_else(|_| Err(busy())) {
            Ok((outcome, review)) => {
                recording.note(outcome);
                let json = [(header::CONTENT_TYPE, "application/json")];
                (json, review.to_string()).into_response()
            }
            Err((status, message)) => (status, message).into_response(),
        }
    }

    async fn review(self, body: Body) -> Reviewed {
        let permit = self.bodies.permit();
        let mut bytes = Vec::new();
        let mut body = body;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if bytes.len() + data.len() > MAX_BODY {
                let message = format!("a review has at most {MAX_BODY} bytes\n");
                return Err((StatusCode::PAYLOAD_TOO_LARGE, message));
            }
            permit.grow(data.len()).map_err(|_| busy())?;
            bytes.extend_from_slice(data);
        }
        let place = self.places.clone().acquire_owned().await;
        let rules = self.rules;
        // Parsing a review may take a while, and must not block the controller.
        let reading = tokio::task::spawn_blocking(move || {
            let _held = (permit, place);
            check_values(&bytes)?;
            let request = request::read(&bytes)?;
            let verdict = rules.verdict(&request);
            Ok((outcome(&verdict), response::review(&request, &verdict)))
        });
        match reading.await {
            Ok(read) => read.map_err(|message: String| (StatusCode::BAD_REQUEST, message + "\n")),
            Err(error) => {
                tracing::error!(%error, "a review panicked; the API server admits the object unchecked");
                let message = "the review failed\n".to_owned();
                Err((StatusCode::INTERNAL_SERVER_ERROR, message))
            }
        }
    }
}

fn busy() -> (StatusCode, String) {
    let message = "too busy: retry later\n".to_owned();
    (StatusCode::SERVICE_UNAVAILABLE, message)
}

fn outcome(verdict: &Verdict) -> Outcome {
    if verdict.errors.is_empty() { Outcome::Allowed } else { Outcome::Refused }
}

fn check_values(body: &[u8]) -> Result<(), String> {
    let begin = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
    if body.iter().filter(begin).count() > MAX_VALUES {
        return Err(format!("a review has at most {MAX_VALUES} values"));
    }
    Ok(())
}
