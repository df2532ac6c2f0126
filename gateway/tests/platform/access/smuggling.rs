//! Attacks by the form of a head: names of clients that a client sends or removes, several keys, keys of any length and
//! of any bytes, other keys on the same connection, and wrong keys in large numbers.

use http::{HeaderMap, Request, StatusCode};
use hyper::client::conn::{http1, http2};

use super::*;
use crate::client::{Client, connect, read};

/// Returns a gateway with two clients that may use its service.
async fn two_clients() -> Guarded {
    let keys = vec![written(1, "team-a"), written(2, "team-b")];
    Guarded::new(Scope::Cluster, policy(keys, vec![rule("*", &["*"], &[])])).await
}

fn infer(lines: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = post(HOST, "/v2/models/digits/infer", "x");
    for (name, value) in lines {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

/// Returns the head of the only request that has reached the replica since the last call.
fn only_head(guarded: &Guarded) -> HeaderMap {
    let mut heads = guarded.replica.seen.heads.lock();
    assert_eq!(heads.len(), 1);
    heads.pop().unwrap().headers
}

/// Over HTTP/1.1, a client may name headers in `Connection`, which proxies then remove. The gateway keeps the header
/// with the client's name nevertheless.
#[tokio::test]
async fn a_client_cannot_take_its_name_off() {
    let guarded = two_clients().await;
    let key = key(1).text;
    for options in ["weir-client", "close, Weir-Client", "x-api-key,weir-client,host"] {
        let request = infer(&[("x-api-key", &key), ("connection", options)]);
        assert_eq!(once(guarded.world.address(), request).await.status, StatusCode::OK, "{options}");
        assert_eq!(only_head(&guarded)["weir-client"], "team-a", "{options}");
    }
}

/// Web frameworks read `weir_client` as `weir-client`.
#[tokio::test]
async fn no_spelling_of_a_gateways_header_passes() {
    let guarded = two_clients().await;
    let key = key(1).text;
    for name in ["weir-client", "weir_client", "Weir_Client", "weir-hop", "weir_hop", "weir-mirror", "weir_mirror"] {
        let request = infer(&[(name, "root"), ("x-api-key", &key), (name, "root")]);
        assert_eq!(once(guarded.world.address(), request).await.status, StatusCode::OK, "{name}");
        let head = only_head(&guarded);
        assert_eq!(head.get_all("weir-client").iter().collect::<Vec<_>>(), ["team-a"], "{name}");
        assert!(!head.values().any(|value| value == "root"), "{name}: {head:?}");
        let alone = once(guarded.world.address(), infer(&[(name, "root")])).await;
        assert_eq!(alone.status, StatusCode::UNAUTHORIZED, "{name}");
    }
}

#[tokio::test]
async fn several_keys_are_refused_in_any_order_and_form() {
    let guarded = two_clients().await;
    let (one, two) = (key(1).text, key(2).text);
    let (one_bearer, two_bearer) = (format!("Bearer {one}"), format!("bearer {two}"));
    let joined = format!("{one_bearer}, {two_bearer}");
    for lines in [
        &[("authorization", &*one_bearer), ("authorization", &*two_bearer)][..],
        &[("authorization", &two_bearer), ("x-api-key", &one)],
        &[("x-api-key", &one), ("x-api-key", &one)],
        &[("x-api-key", &one), ("authorization", "Bearer weir_x")],
        &[("authorization", &joined)],
        &[("x-api-key", &joined)],
    ] {
        let answer = once(guarded.world.address(), infer(lines)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{lines:?}");
        // Two keys in one line are one wrong key.
        let says_several = answer.text().contains("the request has several keys: send one");
        assert_eq!(says_several, lines.len() > 1, "{answer:?}");
    }
    assert_eq!(guarded.replica.requests(), 0);
}

/// A key too long for a head is refused with the head; a shorter one is compared with no key.
#[tokio::test]
async fn a_key_of_any_length_is_refused_and_delays_no_other_client() {
    let guarded = two_clients().await;
    let (long, right) = (key(1).text, key(2).text);
    for length in [87, 8 << 10, 8 << 10 | 1, 48 << 10, 64 << 10, 1 << 20] {
        let key = format!("{long}{}", "0".repeat(length - long.len()));
        let sent = Client::new(guarded.world.address()).send(infer(&[("x-api-key", &key)])).await;
        // The gateway may close the connection before a head without end is sent.
        let statuses = [StatusCode::UNAUTHORIZED, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE];
        assert!(sent.is_ok_and(|answer| statuses.contains(&answer.status)) || length > 64 << 10, "{length}");
        assert_eq!(guarded.infer(Some(&right)).await.status, StatusCode::OK);
        assert_eq!(only_head(&guarded)["weir-client"], "team-b");
    }
}

#[tokio::test]
async fn a_key_in_binary_metadata_opens_nothing() {
    let guarded = two_clients().await;
    let message = Bytes::from_static(b"\0\0\0\0\x08\x0a\x06digits");
    let right = key(1).text;
    let mut client = connect_h2(guarded.world.address()).await;
    for (name, value) in [
        ("x-api-key-bin", right.as_bytes()),
        ("authorization-bin", right.as_bytes()),
        ("x-api-key", b"\xff\xfe\x80"),
        ("authorization", b"Bearer \xff"),
        ("x-api-key", &[right.as_bytes(), b"\xff"].concat()),
    ] {
        let mut call = grpc::call(HOST, "/inference.GRPCInferenceService/ModelInfer", Full::new(message.clone()));
        let name: http::HeaderName = name.parse().unwrap();
        call.headers_mut().insert(name.clone(), http::HeaderValue::from_bytes(value).unwrap());
        let ended = grpc::ended(client.send_request(call).await.unwrap()).await;
        assert_eq!(grpc::status(&ended).0, "16", "{name}");
    }
    assert_eq!(guarded.replica.requests(), 0);
}

/// One connection of each HTTP version to the same gateway.
struct Connections {
    http1: http1::SendRequest<Full<Bytes>>,
    http2: http2::SendRequest<Full<Bytes>>,
}

impl Connections {
    async fn new(guarded: &Guarded) -> Self {
        let address = guarded.world.address();
        Self { http1: connect(address).await, http2: connect_h2(address).await }
    }

    /// Sends a request with this key over each connection, and returns the status, which is the same for both.
    async fn infer(&mut self, key: Option<u8>) -> StatusCode {
        let text = key.map(|number| super::key(number).text);
        let lines: Vec<_> = text.iter().map(|text| ("x-api-key", &**text)).collect();
        let mut request = infer(&lines);
        *request.uri_mut() = format!("http://{HOST}/v2/models/digits/infer").parse().unwrap();
        request.headers_mut().remove("host");
        let by_http2 = read(self.http2.send_request(request).await.unwrap()).await.unwrap().status;
        self.http1.ready().await.unwrap();
        let by_http1 = read(self.http1.send_request(infer(&lines)).await.unwrap()).await.unwrap().status;
        assert_eq!(by_http1, by_http2, "{key:?}");
        by_http1
    }
}

/// The key of a request has no effect on later requests of the same connection.
#[tokio::test]
async fn each_request_of_a_connection_has_its_own_key() {
    let guarded = two_clients().await;
    let mut connections = Connections::new(&guarded).await;
    let steps = [(Some(1), "team-a"), (None, ""), (Some(2), "team-b"), (Some(3), ""), (Some(1), "team-a"), (None, "")];
    for (number, client) in steps {
        let status = connections.infer(number).await;
        let names: Vec<_> =
            guarded.replica.seen.heads.lock().drain(..).map(|head| head.headers["weir-client"].clone()).collect();
        if client.is_empty() {
            assert_eq!((status, names.len()), (StatusCode::UNAUTHORIZED, 0), "{number:?}");
        } else {
            assert_eq!((status, &names[..]), (StatusCode::OK, &[client, client].map(|name| name.parse().unwrap())[..]));
        }
    }
    // A key that is revoked while the connection is open is refused by the next request on it.
    guarded.access.replace(policy(vec![written(2, "team-b")], vec![rule("*", &["*"], &[])]));
    assert_eq!(connections.infer(Some(1)).await, StatusCode::UNAUTHORIZED);
    assert_eq!(connections.infer(Some(2)).await, StatusCode::OK);
}

/// Wrong keys from one address, half of them with the id of a right one, so that a digest is computed.
#[tokio::test]
async fn thousands_of_wrong_keys_of_one_address_leave_others_served() {
    const KEYS: u32 = 2_000;
    let guarded = two_clients().await;
    let (address, id) = (guarded.world.address(), key(1).text[..22].to_owned());
    let guesses = (0..8_u32).map(|part| {
        let id = id.clone();
        tokio::spawn(async move {
            let mut client = Client::new(address);
            for number in (part..KEYS).step_by(8) {
                let id = if number % 2 == 0 { id.clone() } else { format!("weir_{number:016x}_") };
                let answer = client.send(infer(&[("x-api-key", &format!("{id}{number:064x}"))])).await.unwrap();
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
            }
        })
    });
    let guesses = futures_util::future::join_all(guesses.collect::<Vec<_>>());
    let mut guesses = std::pin::pin!(guesses);
    let (right, mut served) = (key(2).text, 0);
    let ended = loop {
        tokio::select! {
            ended = &mut guesses => break ended,
            answer = guarded.infer(Some(&right)) => assert_eq!(answer.status, StatusCode::OK),
        }
        served += 1;
    };
    assert!(ended.iter().all(Result::is_ok) && served > 0, "{served}");
    assert_eq!(guarded.infer(Some(&key(1).text)).await.status, StatusCode::OK);
}
