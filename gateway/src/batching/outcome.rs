//! From a batch's answer to its members' answers.

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Response, StatusCode};
use weir_protocol::rest::HEADER_LENGTH;

use super::entry::BatchEntry;
use super::message::Inferred;
use super::part::{Part, divided, is_packed};
use super::template::{Side, Template};
use crate::codec::{self, grpc};
use crate::error::GatewayError;
use crate::forward::DownstreamBody;
use crate::headers;
use crate::protocol::Protocol;
use crate::queue::Verdict;

/// An answer that was read to its end.
pub(super) struct Whole {
    pub(super) head: Parts,
    pub(super) body: Bytes,
    pub(super) trailers: HeaderMap,
}

/// What an answer means for the members.
pub(super) enum BatchOutcome {
    /// Each gets its rows.
    Rows(Whole),
    /// Each gets the same: it is not about what they sent.
    Same(Whole, Verdict),
    /// One of them may have spoilt it for all: each tries alone.
    Alone,
    /// It broke off: the same.
    Broken,
}

impl BatchOutcome {
    pub(super) fn of(protocol: Protocol, whole: Whole) -> Self {
        match protocol {
            Protocol::Http => Self::of_http(whole),
            Protocol::Grpc => Self::of_grpc(whole),
        }
    }

    fn of_http(whole: Whole) -> Self {
        match whole.head.status {
            status if status.is_success() => Self::Rows(whole),
            // What a server says of a body that it does not like, that is too much for it, or on which
            // its model failed.
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::INTERNAL_SERVER_ERROR => Self::Alone,
            status => {
                let verdict = codec::http::verdict(status, &whole.head.headers);
                Self::Same(whole, verdict)
            }
        }
    }

    fn of_grpc(whole: Whole) -> Self {
        use tonic::Code;
        let status = grpc::status(&whole.trailers).or_else(|| grpc::status(&whole.head.headers));
        match status {
            Some(Code::Ok) => Self::Rows(whole),
            // The same; a message beyond a server's limit is "resource exhausted".
            Some(
                Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::ResourceExhausted
                | Code::Internal
                | Code::Unknown
                | Code::Aborted
                | Code::DataLoss,
            ) => Self::Alone,
            Some(
                status @ (Code::Cancelled
                | Code::DeadlineExceeded
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Unimplemented
                | Code::Unavailable),
            ) => Self::Same(whole, grpc::verdict(status)),
            None => Self::Broken,
        }
    }
}

/// Gives each member what is its own.
pub(super) fn hand_out(entries: Vec<BatchEntry>, landed: Result<BatchOutcome, GatewayError>) {
    match landed {
        Ok(BatchOutcome::Rows(whole)) => divide(entries, &whole),
        Ok(BatchOutcome::Same(whole, verdict)) => {
            let last = last_arrival(&entries);
            for entry in entries {
                let answer = whole.answer(&entry, last, std::iter::once(whole.body.clone()));
                entry.answer(answer, verdict);
            }
        }
        Ok(BatchOutcome::Alone | BatchOutcome::Broken) => {
            for entry in entries {
                entry.go_alone(None);
            }
        }
        Err(error) => {
            for entry in entries {
                entry.fail(error.clone());
            }
        }
    }
}

/// An answer that can be cut.
enum Sliced {
    Json(Template),
    Grpc(Inferred),
}

fn divide(entries: Vec<BatchEntry>, whole: &Whole) {
    let rows: usize = entries.iter().map(|entry| entry.part.rows()).sum();
    let sliced = entries
        .first()
        .map(|first| sliced(&first.part, whole, rows));
    let sliced = match sliced {
        Some(Ok(sliced)) => sliced,
        Some(Err(because)) => {
            for entry in entries {
                let revision = entry.request.queue.name.to_string();
                let because = because.clone();
                entry.fail(GatewayError::NoBatch {
                    revision,
                    rows,
                    because,
                });
            }
            return;
        }
        None => return,
    };
    let (mut at, last) = (0, last_arrival(&entries));
    for entry in entries {
        let its = at..at + entry.part.rows();
        at = its.end;
        let response = sliced.answer(whole, &entry, &its, last);
        entry.answer(response, Verdict::Succeeded);
    }
}

fn sliced(like: &Part, whole: &Whole, rows: usize) -> Result<Sliced, String> {
    if is_packed(&whole.head.headers) {
        return Err("it is packed, though nobody asked for that".to_owned());
    }
    let sliced = Sliced::read(like, whole)?;
    let (name, found) = match &sliced {
        Sliced::Json(template) => (&*template.name, template.rows),
        Sliced::Grpc(inferred) => (inferred.name(), inferred.rows),
    };
    match found == rows {
        true => Ok(sliced),
        false => Err(format!("output {name:?} has {found} rows")),
    }
}

impl Sliced {
    fn read(like: &Part, whole: &Whole) -> Result<Self, String> {
        let body = whole.body.clone();
        match like {
            Part::V1(_) => {
                let template = Template::v1(body, Side::Response);
                let template = template.ok_or("it has no list of predictions")?;
                Ok(Self::Json(template))
            }
            Part::V2(_) => {
                let divided = divided(body, &whole.head.headers);
                let (text, blobs) = divided.ok_or("its header length is none")?;
                Template::v2(text, blobs, Side::Response).map(Self::Json)
            }
            Part::Grpc(_) => {
                let message = grpc::only_message(body).ok_or("it is not one message")?;
                Inferred::read(message).map(Self::Grpc)
            }
        }
    }

    fn answer(
        &self,
        whole: &Whole,
        entry: &BatchEntry,
        rows: &Range<usize>,
        last: Instant,
    ) -> Response<DownstreamBody> {
        let id = entry.part.id();
        match self {
            Self::Grpc(inferred) => {
                let id = id.unwrap_or_default();
                let message = inferred.cut(rows, std::str::from_utf8(&id).unwrap_or_default());
                whole.answer(entry, last, std::iter::once(grpc::framed(&message)))
            }
            Self::Json(template) => {
                let pieces = template.cut(rows, id.as_ref());
                let length = pieces.json.len();
                let body = std::iter::once(pieces.json).chain(pieces.blobs);
                let mut response = whole.answer(entry, last, body);
                let name = HeaderName::from_static(HEADER_LENGTH);
                if whole.head.headers.contains_key(&name) {
                    let length = HeaderValue::from(length);
                    response.headers_mut().insert(name, length);
                }
                response
            }
        }
    }
}

impl Whole {
    /// The same head and end with a member's own body and time in the queue.
    fn answer(
        &self,
        entry: &BatchEntry,
        last: Instant,
        body: impl Iterator<Item = Bytes>,
    ) -> Response<DownstreamBody> {
        let mut headers = self.head.headers.clone();
        headers.remove(CONTENT_LENGTH);
        let mut trailers = self.trailers.clone();
        let times = match trailers.is_empty() {
            true => &mut headers,
            false => &mut trailers,
        };
        headers::add_timing(times, last.saturating_duration_since(entry.request.arrived));
        let data = body.filter(|piece| !piece.is_empty()).collect();
        let trailers = (!trailers.is_empty()).then_some(trailers);
        let mut response = Response::new(DownstreamBody::Pieces { data, trailers });
        *response.status_mut() = self.head.status;
        *response.headers_mut() = headers;
        response
    }
}

fn last_arrival(entries: &[BatchEntry]) -> Instant {
    let arrivals = entries.iter().map(|entry| entry.request.arrived);
    // A batch has members.
    arrivals.max().unwrap_or_else(crate::clock::now)
}
