//! What HTTP and gRPC say differently: errors, deadlines, ends of answers. One small file each.

pub(crate) mod grpc;
pub(crate) mod http;

use ::http::{HeaderMap, Response};
use weir_protocol::{Blame, Code, Coded};

use crate::error::GatewayError;
use crate::forward::DownstreamBody;
use crate::headers;
use crate::protocol::Protocol;
use crate::queue::Verdict;

/// The one way an error becomes a response.
pub(crate) fn error(protocol: Protocol, error: &GatewayError) -> Response<DownstreamBody> {
    let mut response = match protocol {
        Protocol::Http => http::error(error.code(), &error.to_string()),
        Protocol::Grpc => grpc::error(error.code(), &error.to_string()),
    };
    if let GatewayError::NotOwner(_) = error {
        let yes = ::http::HeaderValue::from_static("1");
        response.headers_mut().insert(headers::UNSERVED, yes);
    }
    response
}

/// How an answer with this head ends, as far as its head tells.
pub(crate) fn verdict(protocol: Protocol, response: &Response<impl Sized>) -> Verdict {
    if response.headers().contains_key(headers::REFUSED) {
        return Verdict::Refused;
    }
    match protocol {
        Protocol::Http => http::verdict(response.status(), response.headers()),
        Protocol::Grpc => match grpc::status(response.headers()) {
            Some(status) => grpc::verdict(status),
            // Its trailers will tell.
            None => Verdict::Open,
        },
    }
}

/// What a failure counts as: what its caller brought about is none of the revision's.
fn counted(code: Option<Code>) -> Verdict {
    match code.map(Code::blame) {
        None | Some(Blame::Caller) => Verdict::Succeeded,
        Some(Blame::Load) => Verdict::Refused,
        Some(Blame::Server) => Verdict::Failed,
    }
}

/// Whether a replica refused to work on a request, which then may be tried elsewhere. Our runtime says by a
/// header whether it may. Of others, HTTP's "come again" is taken for it; gRPC's "resource exhausted" is not, because
/// it stands for a message that is too large as well, and for work that ran out of memory.
pub(crate) fn is_refusal(protocol: Protocol, response: &Response<impl Sized>) -> bool {
    let mark = response.headers().get(headers::REFUSED);
    match (mark, protocol) {
        (Some(mark), Protocol::Http | Protocol::Grpc) => mark == "1",
        (None, Protocol::Http) => http::is_refusal(response.status(), response.headers()),
        (None, Protocol::Grpc) => false,
    }
}

/// Whether a gateway refused to take a request that it does not own.
pub(crate) fn is_unserved(headers: &HeaderMap) -> bool {
    headers.contains_key(headers::UNSERVED)
}
