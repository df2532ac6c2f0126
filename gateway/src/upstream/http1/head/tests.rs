use http::uri::PathAndQuery;
use proptest::prelude::*;

use super::*;
use crate::upstream::RequestBody;

fn read(bytes: &str, method: &Method) -> Result<Option<(ResponseHead, usize)>, String> {
    let mut input = BytesMut::from(bytes);
    let head = read_head(&mut input, method, Upgrade::None, &mut 0)?;
    Ok(head.map(|head| (head, input.len())))
}

fn framing_of(lines: &str) -> (Framing, bool) {
    let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
    let (head, left) = read(&text, &Method::POST).unwrap().unwrap();
    assert_eq!(left, 0);
    (head.framing, head.keep_alive)
}

#[test]
fn the_head_determines_the_framing() {
    let cases = [
        ("content-length: 5\r\n", Framing::Length(5), true),
        ("content-length: 5, 5\r\n", Framing::Length(5), true),
        ("transfer-encoding: , Chunked\r\n", Framing::Chunked(ChunkState::Size), true),
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n", Framing::Chunked(ChunkState::Size), false),
        ("transfer-encoding: identity\r\n", Framing::UntilClose, false),
        ("", Framing::UntilClose, false),
        ("content-length: 0\r\nConnection: x, Close\r\n", Framing::Length(0), false),
    ];
    for (lines, framing, keep_alive) in cases {
        assert_eq!(framing_of(lines), (framing, keep_alive), "{lines:?}");
    }
}

#[test]
fn a_head_of_too_many_lines_is_an_error() {
    let text = |count: usize| {
        let lines: String = (0..count).map(|i| format!("x-{i}: {i}\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\n{lines}\r\n")
    };
    let (head, _) = read(&text(256), &Method::GET).unwrap().unwrap();
    assert_eq!(head.response.headers()["x-255"], "255");
    let error = read(&text(257), &Method::GET).unwrap_err();
    assert_eq!(error, "its head has more than 256 lines");
}

#[test]
fn some_responses_have_no_body() {
    for (text, method) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Method::HEAD),
        ("HTTP/1.1 204 No Content\r\n\r\n", Method::GET),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", Method::GET),
    ] {
        let (head, _) = read(text, &method).unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive), (Framing::Ended, true), "{text:?}");
    }
}

#[test]
fn http_1_0_closes_unless_keep_alive() {
    let keep_alive = |lines: &str| {
        let text = format!("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n{lines}\r\n");
        read(&text, &Method::GET).unwrap().unwrap().0.keep_alive
    };
    assert!(!keep_alive(""));
    assert!(keep_alive("connection: keep-alive\r\n"));
    let coded = "connection: keep-alive\r\ntransfer-encoding: chunked\r\n";
    assert!(!keep_alive(coded));
}

#[test]
fn interim_responses_are_skipped() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\na: b\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\nx";
    let (head, left) = read(text, &Method::POST).unwrap().unwrap();
    assert_eq!((head.response.status(), left), (StatusCode::CREATED, 1));
}

#[test]
fn interim_responses_without_end_are_an_error() {
    let (mut input, mut interim) = (BytesMut::new(), 0);
    let mut sent = 0;
    let error = loop {
        input.extend_from_slice(b"HTTP/1.1 102 Processing\r\n\r\n");
        sent += input.len();
        match read_head(&mut input, &Method::POST, Upgrade::None, &mut interim) {
            Ok(head) => assert!(head.is_none() && sent < 100_000),
            Err(error) => break error,
        }
    };
    assert_eq!(error, "its interim responses exceed 64 KiB");
}

#[test]
fn an_invalid_head_is_an_error() {
    for bad in [
        "garbage\r\n\r\n",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
    ] {
        assert!(read(bad, &Method::POST).is_err(), "{bad:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MAX_HEAD));
    assert!(read(&endless, &Method::POST).is_err());
}

fn written(method: Method, headers: &[(&'static str, &'static str)], length: Option<u64>) -> String {
    let path = PathAndQuery::from_static("/v2/models/m/infer?x=1");
    let lines = headers.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    let headers = HeaderMap::from_iter(lines);
    let mut out = Vec::new();
    let request = UpstreamRequest::plain(&method, &path, &headers, RequestBody::empty());
    write_head(&mut out, &request, length);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_head_frames_its_body() {
    let line = "/v2/models/m/infer?x=1 HTTP/1.1\r\n";
    let get = written(Method::GET, &[("host", "a")], Some(0));
    assert_eq!(get, format!("GET {line}host: a\r\n\r\n"));
    let post = written(Method::POST, &[("content-length", "7")], Some(0));
    assert_eq!(post, format!("POST {line}content-length: 0\r\n\r\n"));
    let streamed = [("content-length", "7"), ("transfer-encoding", "x"), ("connection", "close")];
    let streamed = written(Method::POST, &streamed, None);
    assert_eq!(streamed, format!("POST {line}transfer-encoding: chunked\r\n\r\n"));
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut input = BytesMut::from(&b"HTTP/1.1 200 OK\r\n"[..]);
        input.extend_from_slice(&bytes);
        let _ = read_head(&mut input, &Method::GET, Upgrade::WebSocket, &mut 0);
    }

    #[test]
    fn a_head_is_parsed_only_when_complete(cut in 0_usize..60) {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx-y:  z \r\n\r\n";
        let head = read(&text[..cut.min(text.len())], &Method::GET).unwrap();
        prop_assert_eq!(head.is_some(), cut >= text.len());
        if let Some((head, _)) = head {
            prop_assert_eq!(&head.response.headers()["x-y"], "z");
        }
    }
}
