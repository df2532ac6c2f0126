//! Fuzz tests with mutated responses of replicas and mutated header values of clients. Every input is either read or
//! refused, with the same result however it is cut into pieces. `WEIR_FUZZ_SECONDS` sets the duration; the seed is
//! fixed, so a failure can be reproduced.

use crate::upstream::Upgrade;
use bytes::BytesMut;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request};
use weir_fuzz::{FuzzRng, Rng, mutate};
use weir_serve::known_hosts::KnownHosts;

use super::framing::Decoded;
use super::head::read_head;
use crate::clock::now;
use crate::codec::grpc::first_message;
use crate::wire::deadline::Deadline;

/// Seconds per test: long enough to meet every rule many times, short enough for every test run.
const SECONDS: u64 = 2;

/// Bytes of which HTTP heads and framing consist.
const ALPHABET: &[u8] = b"\r\n:;, 0123456789abcdefx";

/// Maximum size in bytes of the body of one of these responses.
const MOST: usize = 1 << 20;

const RESPONSES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nconnection: keep-alive, x\r\nx: \xff\r\n\r\nuntil the end",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5, 5\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 503 X\r\nretry-after: 1\r\nweir-refused: 1\r\ncontent-length: 18446744073709551616\r\n\r\n",
];

const HEADERS: &[&[u8]] = &[
    b"5",
    b"99999999999999999999",
    b"1H",
    b"100000000S",
    b"-1",
    b"0.5",
    b" 7 ",
    b"localhost:8080",
    b"[::1]:80",
    b"http://localhost:3000",
    b"a-b.example.com.",
    b"null",
    b"\xc3\xa9",
];

const MESSAGES: &[&[u8]] = &[
    b"\0\0\0\0\x05hello",
    b"\x01\0\0\0\x19\x1f\x8b\x08\0\0\0\0\0\0\x03\xcbH\xcd\xc9\xc9\x07\0\x86\xa6\x106\x05\0\0\0",
    b"\x01\xff\xff\xff\xffx\x9c",
];

/// Reads a head and its body from pieces of at most `step` bytes.
fn read(bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize), String> {
    let mut input = BytesMut::new();
    let mut pieces = bytes.chunks(step);
    let head = loop {
        match read_head(&mut input, &Method::POST, Upgrade::None, &mut 0)? {
            Some(head) => break head,
            None => match pieces.next() {
                Some(piece) => input.extend_from_slice(piece),
                None => return Err("no head".to_owned()),
            },
        }
    };
    let (mut framing, mut body) = (head.framing, Vec::new());
    loop {
        match framing.decode(&mut input)? {
            Decoded::Data(data) => body.extend_from_slice(&data),
            Decoded::Trailers(trailers) => return Ok((body, trailers.len())),
            Decoded::End => return Ok((body, 0)),
            Decoded::Incomplete => match pieces.next() {
                Some(piece) => input.extend_from_slice(piece),
                None => {
                    framing.close()?;
                    return Ok((body, 0));
                }
            },
        }
        assert!(body.len() <= MOST);
    }
}

#[test]
fn a_response_is_read_the_same_in_pieces_of_any_size() {
    fuzz(RESPONSES, |bytes, rng| {
        let whole = read(bytes, bytes.len().max(1));
        let step = 1 + rng.next_u32() as usize % 40;
        let cut = read(bytes, step);
        if whole.is_ok() || cut.is_ok() {
            assert_eq!(whole, cut, "in pieces of {step}");
        }
    });
}

#[test]
fn no_header_value_makes_a_reader_panic() {
    let names = ["grpc-timeout", "weir-timeout", "host", "origin", "weir-tag"];
    let hosts = KnownHosts::of([127, 0, 0, 1].into(), &["box".to_owned()]);
    fuzz(HEADERS, |bytes, _| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else {
            return;
        };
        let mut request = Request::new(());
        for name in names {
            let name = HeaderName::from_static(name);
            request.headers_mut().insert(name, value.clone());
        }
        let (parts, ()) = request.into_parts();
        let at = now();
        if let Ok(Deadline { at: Some(end), .. }) = Deadline::requested(&parts.headers, at) {
            assert!(end >= at);
        }
        let _ = hosts.check(&parts, |_| false);
    });
}

#[test]
fn no_message_decompresses_to_more_than_the_limit() {
    fuzz(MESSAGES, |bytes, rng| {
        let most = rng.next_u32() as usize % 5_000;
        for encoding in [None, Some("gzip"), Some("deflate"), Some("identity")] {
            if let Some(message) = first_message(bytes, encoding, most) {
                assert!(message.len() <= most.max(bytes.len()));
            }
        }
    });
}

fn fuzz(corpus: &[&[u8]], target: impl Fn(&[u8], &mut FuzzRng)) {
    let make = |rng: &mut FuzzRng| mutate(corpus, ALPHABET, 5, rng);
    weir_fuzz::fuzz(SECONDS, make, |bytes, rng| target(bytes, rng));
}
