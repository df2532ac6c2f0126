//! Tests of OpenAI's API at the shared address: routing by model, the list of models, and the form of errors.

use std::time::Duration;

use http::{Method, StatusCode};
use http_body_util::Full;
use weir_cluster::OpenAiApi;
use weir_gateway::{Options, Scope};

use crate::client::{Answered, once, post, with};
use crate::replica::Behaviour;
use crate::world::{HOST, World};

const ECHO: Behaviour = Behaviour::Echo(Duration::ZERO);
const CHAT: &str = "/v1/chat/completions";

fn post_json(path: &str, body: &'static str) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    with(post("localhost", path, body), "content-type", "application/json")
}

#[tokio::test]
async fn calls_of_openais_api_reach_the_service_whose_model_their_body_names() {
    let (world, replica) = World::with(ECHO).await;
    let body = r#"{"messages":[{"role":"user","content":"\"model\":\"x\""}],"stream_options":{"include_usage":true},"model":"digits"}"#;
    for path in ["/v1/chat/completions", "/v1/completions?x=1", "/v1/embeddings", "/openai/v1/responses"] {
        let answer = once(world.address(), post_json(path, body)).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, body), "{path}");
        let head = replica.seen.heads.lock().pop().unwrap();
        assert_eq!(head.uri.to_string(), path);
    }
}

/// Returns the type, the parameter and the code of an error in OpenAI's form.
fn error_of(answer: &Answered) -> (String, Option<String>, String) {
    assert_eq!(answer.header("content-type"), "application/json");
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let error = body["error"].as_object().unwrap();
    assert!(!error["message"].as_str().unwrap().is_empty());
    let text = |name: &str| error[name].as_str().map(str::to_owned);
    (text("type").unwrap(), text("param"), text("code").unwrap())
}

fn invalid(code: &str) -> (String, Option<String>, String) {
    ("invalid_request_error".to_owned(), None, code.to_owned())
}

fn server_error(code: &str) -> (String, Option<String>, String) {
    ("server_error".to_owned(), None, code.to_owned())
}

#[tokio::test]
async fn refused_calls_have_openais_form() {
    let world = World::serving().await;
    let answer = once(world.address(), post_json(CHAT, r#"{"model":"digit"}"#)).await;
    let unknown = ("invalid_request_error".to_owned(), Some("model".to_owned()), "model_not_found".to_owned());
    assert_eq!((answer.status, error_of(&answer)), (StatusCode::NOT_FOUND, unknown));
    assert!(answer.text().contains("digits"), "{}", answer.text());
    let answer = once(world.address(), post_json("/openai/v1/rerank", "[]")).await;
    assert_eq!((answer.status, error_of(&answer)), (StatusCode::BAD_REQUEST, invalid("invalid_argument")));
    for (method, path) in [(Method::GET, CHAT), (Method::PUT, "/v1/models"), (Method::DELETE, "/openai/v1/models")] {
        let mut request = post_json(path, "");
        *request.method_mut() = method;
        let answer = once(world.address(), request).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(error_of(&answer), invalid("method_not_allowed"));
    }
    let answer = once(world.address(), post_json("/openai/v1/audio/speech", "{}")).await;
    assert_eq!((answer.status, error_of(&answer)), (StatusCode::NOT_IMPLEMENTED, invalid("unimplemented")));
}

#[tokio::test]
async fn a_body_that_is_too_large_to_be_routed_is_413() {
    let mut options = Options::new("gateway", Scope::Local);
    options.request_buffer = 100;
    let world = World::of(options).await;
    world.serve(&[100], |_| {}).await;
    let large = format!(r#"{{"prompt":"{}","model":"digits"}}"#, "x".repeat(100));
    let announced = with(post("localhost", CHAT, large.clone()), "content-type", "application/json");
    let answer = once(world.address(), announced).await;
    assert_eq!((answer.status, error_of(&answer)), (StatusCode::PAYLOAD_TOO_LARGE, invalid("too_large")));
    let mut client = crate::client::connect(world.address()).await;
    let pieces = [&large[..60], &large[60..]].map(|piece| {
        Ok::<_, std::convert::Infallible>(http_body::Frame::data(bytes::Bytes::copy_from_slice(piece.as_bytes())))
    });
    let body = http_body_util::StreamBody::new(tokio_stream::iter(pieces));
    let request = http::Request::post(CHAT).header("host", "localhost").body(body).unwrap();
    let answer = crate::client::read(client.send_request(request).await.unwrap()).await.unwrap();
    assert_eq!((answer.status, error_of(&answer)), (StatusCode::PAYLOAD_TOO_LARGE, invalid("too_large")));
}

#[tokio::test]
async fn a_full_queue_and_a_missed_deadline_have_openais_form() {
    let (world, replica) = World::with_limited(Behaviour::Hang).await;
    world.serve_limited(&[100], Some(1), |route| route.max_queue = 1).await;
    let call = || post_json(CHAT, r#"{"model":"digits"}"#);
    let address = world.address();
    let working = tokio::spawn(once(address, call()));
    replica.seen.until_busy(1).await;
    let waiting = tokio::spawn(once(address, with(call(), "weir-timeout", "1500")));
    world.activity(1, |activity| activity.queued == 1).await;
    let full = once(address, call()).await;
    assert_eq!((full.status, error_of(&full)), (StatusCode::SERVICE_UNAVAILABLE, server_error("overloaded")));
    assert_eq!(full.header("retry-after"), "1");
    let late = waiting.await.unwrap();
    assert_eq!((late.status, error_of(&late)), (StatusCode::GATEWAY_TIMEOUT, server_error("deadline_exceeded")));
    working.abort();
}

#[tokio::test]
async fn a_servers_own_refusal_is_passed_on_unchanged() {
    let limited = |_: &http::request::Parts, _: &bytes::Bytes| {
        let mut response = http::Response::new(crate::replica::full(r#"{"error":{"code":"rate_limit_exceeded"}}"#));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response
    };
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(9));
    let (world, _replica) = World::with(Behaviour::Compute(gate, limited)).await;
    let answer = once(world.address(), post_json(CHAT, r#"{"model":"digits"}"#)).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.text(), r#"{"error":{"code":"rate_limit_exceeded"}}"#);
}

#[tokio::test]
async fn errors_at_a_services_own_host_have_openais_form_too() {
    let world = World::new(1).await;
    world.serve(&[100], |route| route.activation_timeout = Duration::from_millis(50)).await;
    for (host, path) in [(HOST, "/v1/embeddings"), ("localhost", "/serving/default/digits/openai/v1/anything")] {
        let answer = once(world.address(), post(host, path, "{}")).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(error_of(&answer), server_error("unavailable"));
    }
}

#[tokio::test]
async fn the_list_has_the_models_that_may_support_openais_api() {
    for (openai, listed) in [
        (OpenAiApi::Supported, vec!["digits"]),
        (OpenAiApi::Undeclared, vec!["digits"]),
        (OpenAiApi::Absent, Vec::new()),
    ] {
        let world = World::new(1).await;
        world.serve(&[100], |route| route.openai = openai).await;
        for path in ["/v1/models", "/openai/v1/models"] {
            let request = http::Request::get(path).header("host", "localhost");
            let answer = once(world.address(), request.body(Full::default()).unwrap()).await;
            let list: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            // V1's list has every model.
            assert_eq!(list["models"], serde_json::json!(["digits"]));
            assert_eq!(list["object"], "list");
            let data = list["data"].as_array().unwrap();
            let found: Vec<_> = data.iter().map(|model| model["id"].as_str().unwrap()).collect();
            assert_eq!(found, listed, "{openai:?}");
            assert!(data.iter().all(|model| model["object"] == "model"));
        }
        // The list starts no replica.
        world.activity(1, |activity| activity.arrivals == 0).await;
    }
}
