//! Recognizes inferences of the model whose name is the service's. Every revision of the service must have that model,
//! so "not found" is the revision's failure. For another model, version or path it is the caller's mistake.

use bytes::Buf;
use http::{Method, Response};
use weir_protocol::grpc::{NameField, PEEK_LIMIT, find_model_name};
use weir_protocol::{Code, is_control};

use super::request::ProxyRequest;
use crate::body::{BufferedBody, ChunkReader};
use crate::codec::{self, grpc};
use crate::queue::Verdict;
use crate::router::model_of_path;
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// Returns the verdict on a replica's response, as far as the response head determines it.
pub(super) fn verdict(request: &ProxyRequest, buffered: &BufferedBody, response: &Response<impl Sized>) -> Verdict {
    let verdict = codec::verdict(request.protocol, response);
    match codec::code(request.protocol, response) {
        Some(Code::NotFound) if infers_own_model(request, buffered) => Verdict::Failed,
        // The replica knows the request's deadline too, and may be the first to see it pass.
        Some(Code::DeadlineExceeded) if verdict == Verdict::Failed => request.missed,
        // A server refuses control calls because of its flags, which says nothing about its inferences.
        Some(_) if verdict == Verdict::Failed && is_control(request.path.path()) => Verdict::Uncounted,
        Some(_) | None => verdict,
    }
}

fn infers_own_model(request: &ProxyRequest, buffered: &BufferedBody) -> bool {
    let (name, path) = (request.queue.name.service().name(), request.path.path());
    match request.protocol {
        Protocol::Http if request.method != Method::POST => false,
        Protocol::Http => is_inference(path) && model_of_path(path).is_some_and(|m| m == name),
        Protocol::Grpc => path.ends_with("/ModelInfer") && asks_for(name, request, buffered),
    }
}

/// True if the first message of a call asks for this model without a version. In a compressed message only its first
/// bytes are read.
fn asks_for(model: &str, request: &ProxyRequest, buffered: &BufferedBody) -> bool {
    if let Some(message) = grpc::plain_message(ChunkReader::new(&buffered.chunks)) {
        return names_only(model, message);
    }
    let encoding = headers::text(&request.headers, &headers::GRPC_ENCODING);
    let head = buffered.head(PEEK_LIMIT);
    let message = grpc::first_message(&head, encoding, PEEK_LIMIT).unwrap_or_default();
    names_only(model, &*message)
}

/// True for the path of an inference without a version.
fn is_inference(path: &str) -> bool {
    let v2 = path.strip_prefix("/v2/models/").and_then(|rest| rest.split_once('/'));
    match (v2, path.strip_prefix("/v1/models/")) {
        (Some((_, call)), _) => matches!(call, "infer" | "generate" | "generate_stream"),
        (None, Some(rest)) => rest.strip_suffix(":predict").is_some_and(|model| !model.contains('/')),
        (None, None) => false,
    }
}

/// True if a `ModelInfer` message names this model and no version.
fn names_only(model: &str, message: impl Buf + Clone) -> bool {
    let field = NameField::of("ModelInfer");
    let name = field.and_then(|field| find_model_name(field, message.clone()));
    let version = find_model_name(NameField::VERSION, message);
    name.as_deref() == Some(model) && version.is_none_or(|version| version.is_empty())
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use weir_protocol::grpc::proto::ModelInferRequest;

    use super::*;

    #[test]
    fn only_inferences_without_a_version_are_recognized() {
        for path in [
            "/v2/models/digits/infer",
            "/v2/models/digits/generate",
            "/v2/models/digits/generate_stream",
            "/v1/models/digits:predict",
        ] {
            assert!(is_inference(path), "{path}");
        }
        for path in [
            "/v2/models/digits/versions/9/infer",
            "/v1/models/digits/versions/1:predict",
            "/v2/models/digits/nothing",
            "/v2/models/digits",
            "/v1/models/digits",
            "/v2/infer",
            "/infer",
        ] {
            assert!(!is_inference(path), "{path}");
        }
    }

    #[test]
    fn a_message_with_a_version_does_not_count_as_the_own_model() {
        let message = |name: &str, version: &str| {
            ModelInferRequest {
                model_name: name.to_owned(),
                model_version: version.to_owned(),
                ..ModelInferRequest::default()
            }
            .encode_to_vec()
        };
        assert!(names_only("digits", &message("digits", "")[..]));
        assert!(!names_only("digits", &message("digits", "9")[..]));
        assert!(!names_only("digits", &message("other", "")[..]));
        assert!(!names_only("digits", &b"\xff"[..]));
    }

    /// Searches the whole message, because a server takes the last value of a repeated field.
    #[test]
    fn a_version_or_name_behind_the_tensors_counts_too() {
        let part = |name: &str, version: &str, raw: usize| {
            let message = ModelInferRequest {
                model_name: name.to_owned(),
                model_version: version.to_owned(),
                raw_input_contents: vec![vec![0_u8; raw].into()],
                ..ModelInferRequest::default()
            };
            message.encode_to_vec()
        };
        let named = part("digits", "", 2 * PEEK_LIMIT);
        assert!(names_only("digits", &named[..]));
        for behind in [part("", "9", 1), part("other", "", 1)] {
            let message = [&named[..], &behind[..]].concat();
            assert!(!names_only("digits", &message[..]));
        }
        let last = [part("", "", 2 * PEEK_LIMIT), named].concat();
        assert!(names_only("digits", &last[..]));
    }
}
