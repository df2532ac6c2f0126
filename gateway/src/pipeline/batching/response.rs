//! Splits a batch's response into the responses to its entries.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::response::Parts;
use http::{Response, StatusCode};
use weir_protocol::rest::HEADER_LENGTH;
use weir_serve::byte_budget::BudgetPermit;
use weir_serve::charged;

use super::entry::BatchEntry;
use super::message::GrpcResponse;
use super::request::{ParsedRequest, is_encoded, split_json};
use super::template::{BodyKind, Template};
use crate::body::DownstreamBody;
use crate::codec::{self, grpc};
use crate::error::GatewayError;
use crate::queue::Verdict;
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// A response that was read to its end.
pub(super) struct BatchResponse {
    pub(super) head: Parts,
    pub(super) body: Bytes,
    pub(super) trailers: HeaderMap,
    /// Charges the byte budget for the body, and then for the entries' responses, until all clients have read theirs.
    pub(super) permit: Arc<BudgetPermit>,
}

/// Result of a batch for its entries.
pub(super) enum BatchOutcome {
    /// Each entry gets its rows.
    Rows(BatchResponse),
    /// Each entry gets the same response, because its status does not depend on the request's body.
    Same(BatchResponse, Verdict),
    /// Each entry gets the same response, because the batch's deadline has passed, which is the latest deadline of its
    /// entries.
    Late(BatchResponse),
    /// One entry may have made the batch fail, or the response broke off and the replica still runs, so each entry is
    /// retried alone.
    Alone,
    /// The replica's program was ended from outside, or for an unknown reason. Each entry is retried alone, at one more
    /// replica.
    ReplicaEnded,
}

/// Code of a response to a request whose deadline passed.
const DEADLINE_CODE: weir_protocol::Code = weir_protocol::Code::DeadlineExceeded;

impl BatchOutcome {
    pub(super) fn of(protocol: Protocol, response: BatchResponse) -> Self {
        match protocol {
            Protocol::Http => Self::of_http(response),
            Protocol::Grpc => Self::of_grpc(response),
        }
    }

    fn of_http(response: BatchResponse) -> Self {
        match response.head.status {
            status if status.is_success() => Self::Rows(response),
            // These statuses depend on the request: it is invalid, too large, for an unknown version, or the model
            // failed on it.
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::INTERNAL_SERVER_ERROR => Self::Alone,
            status if weir_protocol::Code::of_http(status) == Some(DEADLINE_CODE) => Self::Late(response),
            status => {
                let verdict = codec::http::verdict(status, &response.head.headers);
                Self::Same(response, verdict)
            }
        }
    }

    fn of_grpc(response: BatchResponse) -> Self {
        use tonic::Code;
        let status = grpc::status(&response.trailers).or_else(|| grpc::status(&response.head.headers));
        match status {
            Some(Code::Ok) => Self::Rows(response),
            // These statuses depend on the message. A message above a server's size limit gets `RESOURCE_EXHAUSTED`. A
            // response without a status broke off.
            None
            | Some(
                Code::InvalidArgument
                | Code::NotFound
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::ResourceExhausted
                | Code::Internal
                | Code::Unknown
                | Code::Aborted
                | Code::DataLoss,
            ) => Self::Alone,
            Some(Code::DeadlineExceeded) => Self::Late(response),
            Some(
                status @ (Code::Cancelled
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Unimplemented
                | Code::Unavailable),
            ) => Self::Same(response, grpc::verdict(status)),
        }
    }
}

/// Sends its outcome to each entry.
pub(super) fn distribute(entries: Vec<BatchEntry>, outcome: Result<BatchOutcome, GatewayError>) {
    match outcome {
        Ok(BatchOutcome::Rows(response)) => split(entries, &response),
        Ok(BatchOutcome::Same(response, verdict)) => {
            answer_all(entries, &response, |_| verdict);
        }
        Ok(BatchOutcome::Late(response)) => {
            answer_all(entries, &response, |entry| entry.request.missed);
        }
        Ok(BatchOutcome::Alone) => {
            for entry in entries {
                entry.forward_alone(None);
            }
        }
        Ok(BatchOutcome::ReplicaEnded) => {
            for mut entry in entries {
                entry.request.count_ended_replica();
                entry.forward_alone(None);
            }
        }
        Err(error) => {
            for entry in entries {
                entry.fail(error.clone());
            }
        }
    }
}

/// Sends the whole response to each entry; `verdict` returns how the entry is counted.
fn answer_all(entries: Vec<BatchEntry>, response: &BatchResponse, verdict: impl Fn(&BatchEntry) -> Verdict) {
    let last = last_arrival(&entries);
    for entry in entries {
        let answer = response.answer(&entry, last, std::iter::once(response.body.clone()));
        let verdict = verdict(&entry);
        entry.answer(answer, verdict);
    }
}

/// A response that can be split by rows.
enum SplittableResponse {
    Json(Template),
    Grpc(GrpcResponse),
}

/// Splits a response by rows, or fails all entries if its number of rows is not the batch's.
fn split(entries: Vec<BatchEntry>, response: &BatchResponse) {
    let rows: usize = entries.iter().map(|entry| entry.parsed.rows()).sum();
    let splittable = entries.first().map(|first| splittable(&first.parsed, response, rows));
    let splittable = match splittable {
        Some(Ok(splittable)) => splittable,
        Some(Err(because)) => {
            for entry in entries {
                let revision = entry.request.queue.name.to_string();
                let because = because.clone();
                entry.fail(GatewayError::NoBatch { revision, rows, because });
            }
            return;
        }
        None => return,
    };
    let (mut at, last) = (0, last_arrival(&entries));
    for entry in entries {
        let slice = at..at + entry.parsed.rows();
        at = slice.end;
        let answer = splittable.answer(response, &entry, &slice, last);
        entry.answer(answer, Verdict::Succeeded);
    }
}

/// Parses the response to a batch of `rows` rows.
fn splittable(like: &ParsedRequest, response: &BatchResponse, rows: usize) -> Result<SplittableResponse, String> {
    if is_encoded(&response.head.headers) {
        return Err("it is compressed, though the request did not accept that".to_owned());
    }
    let splittable = SplittableResponse::read(like, response)?;
    let (name, found) = match &splittable {
        SplittableResponse::Json(template) => (&*template.name, template.rows),
        SplittableResponse::Grpc(message) => (message.name(), message.rows),
    };
    if found != rows {
        return Err(format!("output {name:?} has {found} rows"));
    }
    Ok(splittable)
}

impl SplittableResponse {
    /// Parses the response to a batch of requests of the same kind as `like`.
    fn read(like: &ParsedRequest, response: &BatchResponse) -> Result<Self, String> {
        let body = response.body.clone();
        match like {
            ParsedRequest::V1(_) => {
                let template = Template::v1(body, BodyKind::Response).ok_or("it has no list of predictions")?;
                Ok(Self::Json(template))
            }
            ParsedRequest::V2(_) => {
                let parts = split_json(body, &response.head.headers);
                let (text, blobs) = parts.ok_or("its header length is invalid")?;
                Template::v2(text, blobs, BodyKind::Response).map(Self::Json)
            }
            ParsedRequest::Grpc(_) => {
                let message = grpc::only_message(body).ok_or("it is not one message")?;
                GrpcResponse::read(message).map(Self::Grpc)
            }
        }
    }

    fn answer(
        &self,
        response: &BatchResponse,
        entry: &BatchEntry,
        rows: &Range<usize>,
        last: Instant,
    ) -> Response<DownstreamBody> {
        let id = entry.parsed.id();
        match self {
            Self::Grpc(message) => {
                let id = id.unwrap_or_default();
                let message = message.slice(rows, std::str::from_utf8(&id).unwrap_or_default());
                response.answer(entry, last, std::iter::once(grpc::framed(&message)))
            }
            Self::Json(template) => {
                let sliced = template.slice(rows, id.as_ref());
                let length = sliced.json.len();
                let body = std::iter::once(sliced.json).chain(sliced.blobs);
                let mut answer = response.answer(entry, last, body);
                let name = HeaderName::from_static(HEADER_LENGTH);
                if response.head.headers.contains_key(&name) {
                    let length = HeaderValue::from(length);
                    answer.headers_mut().insert(name, length);
                }
                answer
            }
        }
    }
}

impl BatchResponse {
    /// Returns an entry's response: the batch's head and trailers, with the entry's own body and queue time.
    fn answer(&self, entry: &BatchEntry, last: Instant, body: impl Iterator<Item = Bytes>) -> Response<DownstreamBody> {
        let mut headers = self.head.headers.clone();
        headers.remove(CONTENT_LENGTH);
        // A cookie belongs to one client, but the batch's response goes to all of them.
        headers.remove(SET_COOKIE);
        let mut trailers = self.trailers.clone();
        let times = if trailers.is_empty() { &mut headers } else { &mut trailers };
        headers::add_timing(times, last.saturating_duration_since(entry.request.queued_since));
        let data = body.filter(|piece| !piece.is_empty());
        let data = data.map(|piece| charged(piece, Arc::clone(&self.permit))).collect();
        let trailers = (!trailers.is_empty()).then_some(trailers);
        let mut response = Response::new(DownstreamBody::Local { data, trailers });
        *response.status_mut() = self.head.status;
        *response.headers_mut() = headers;
        response
    }
}

fn last_arrival(entries: &[BatchEntry]) -> Instant {
    let arrivals = entries.iter().map(|entry| entry.request.queued_since);
    // A batch is never empty.
    arrivals.max().unwrap_or_else(crate::clock::now)
}
