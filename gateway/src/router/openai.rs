//! Calls of OpenAI's API, which name their model in a member of the JSON body.

use weir_protocol::rest::members;

use crate::body::BufferedBody;
use crate::error::GatewayError;

/// Longest model name that is looked for, in bytes: longer than the name of any service.
const MAX_NAME: usize = 1024;

/// Returns true for the path of a call whose JSON body names the model. KServe's servers have these paths below
/// `/openai` too.
pub(crate) fn is_call(path: &str) -> bool {
    const CALLS: [&str; 5] =
        ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank", "/v1/responses"];
    CALLS.contains(&path.strip_prefix("/openai").unwrap_or(path))
}

/// Returns the model that a body names. The body is read without building a tree of it.
///
/// # Errors
/// Fails if the body exceeds `most` bytes or the gateway's byte budget, is no JSON object, repeats a member, or has no
/// string `model`.
pub(super) fn model_of(buffered: &BufferedBody, most: usize) -> Result<String, GatewayError> {
    if !buffered.is_whole() {
        let is_too_large = buffered.exceeds(most);
        return Err(if is_too_large { GatewayError::TooLargeToRoute(most) } else { buffered.no_room() });
    }
    let whole = buffered.charged_whole().ok_or_else(|| buffered.no_room())?;
    let members = members(&whole).ok_or_else(|| invalid("is no JSON object with unique members"))?;
    let value = members.into_iter().find_map(|(key, value)| (key == "model").then_some(value));
    let text = value.and_then(|value| whole.get(value)).filter(|text| text.len() <= MAX_NAME);
    let model = text.and_then(|text| serde_json::from_slice(text).ok());
    model.ok_or_else(|| invalid("has no member \"model\" with a model's name"))
}

fn invalid(because: &str) -> GatewayError {
    GatewayError::Body(because.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use weir_serve::byte_budget::ByteBudget;

    use super::*;

    fn model(pieces: &[&[u8]]) -> Result<String, GatewayError> {
        let chunks = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
        model_of(&BufferedBody::from_chunks(chunks, &ByteBudget::new(1 << 20)), 1 << 20)
    }

    #[test]
    fn paths_below_openai_are_calls_too() {
        for path in ["/v1/chat/completions", "/openai/v1/embeddings", "/v1/responses"] {
            assert!(is_call(path), "{path}");
        }
        for path in ["/v1/models", "/openai", "/v1/chat/completions/x", "/v2/v1/completions", "/v1/responses/1"] {
            assert!(!is_call(path), "{path}");
        }
    }

    #[test]
    fn the_model_is_found_wherever_it_is() {
        let first = br#"{"model": "digits", "messages": []}"#;
        let last = br#"{"messages": [{"model": "other", "content": "\"model\": \"x\""}], "model" : "di\u0067its"}"#;
        assert_eq!(model(&[first]).unwrap(), "digits");
        assert_eq!(model(&[last]).unwrap(), "digits");
        assert_eq!(model(&[&last[..50], &last[50..]]).unwrap(), "digits");
    }

    #[test]
    fn a_body_without_a_clear_model_is_invalid() {
        let twice = br#"{"model": "a", "model": "b"}"#;
        let long = format!("{{\"model\": \"{}\"}}", "m".repeat(2 * MAX_NAME));
        for body in [&b""[..], b"[]", b"{}", b"{\"model\": 1}", b"{\"model\": null}", b"{\"model\": \"a\"", twice] {
            assert!(matches!(model(&[body]), Err(GatewayError::Body(_))), "{}", String::from_utf8_lossy(body));
        }
        assert!(model(&[long.as_bytes()]).is_err());
    }

    proptest! {
        #[test]
        fn any_name_is_read_as_it_was_written(name in ".{1,40}", before in any::<i64>()) {
            let body = serde_json::json!({ "before": before, "model": name }).to_string();
            prop_assert_eq!(model(&[body.as_bytes()]).unwrap(), name);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = model(&[&bytes]);
        }
    }
}
