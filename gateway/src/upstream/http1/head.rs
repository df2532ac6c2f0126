//! Encodes request heads and parses response heads (RFC 9112, 3 to 6).

use std::io::Write as _;
use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING};
use http::{Method, Response, StatusCode};
use weir_serve::header_names;

use super::framing::{ChunkState, Framing};
use crate::upstream::upgrade::names_websocket;
use crate::upstream::{Upgrade, UpstreamRequest, WEBSOCKET};

/// Maximum size in bytes of a response's head: four times the size that common servers send.
const MAX_HEAD: usize = 64 << 10;

/// Maximum number of lines in a response's head, which leaves 256 bytes per line, more than common lines have. Common
/// servers allow 100 to 200 lines.
const MAX_LINES: usize = 256;

/// Maximum number of bytes of the interim responses before a response. That is enough for thousands of interim
/// responses; a server that sends more never answers.
const MAX_INTERIM: usize = 64 << 10;

/// A parsed response head.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    /// True if the connection can carry another request.
    pub(super) keep_alive: bool,
}

/// Writes a request's head. The framing headers of the client are replaced by headers for a body of `length` bytes;
/// `None` means an unknown length.
pub(super) fn write_head(out: &mut Vec<u8>, request: &UpstreamRequest<'_>, length: Option<u64>) {
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.path.as_str().as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.lines() {
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name) {
            write_line(out, name.as_str(), value.as_bytes());
        }
    }
    // `te` and `upgrade` are headers of the connection, which has to name them (RFC 9110, 7.8 and 10.1.4).
    match (request.upgrade, header_names::has(request.headers, &TE)) {
        (Upgrade::None, false) => {}
        (Upgrade::None, true) => write_line(out, "connection", b"te"),
        (Upgrade::WebSocket, false) => write_line(out, "connection", b"upgrade"),
        (Upgrade::WebSocket, true) => write_line(out, "connection", b"upgrade, te"),
    }
    if request.upgrade == Upgrade::WebSocket {
        write_line(out, "upgrade", WEBSOCKET.as_bytes());
    }
    let has_body = [Method::POST, Method::PUT, Method::PATCH].contains(request.method);
    match length {
        Some(0) if !has_body && !header_names::has(request.headers, &CONTENT_LENGTH) => {}
        // Writing to a `Vec` cannot fail.
        Some(bytes) => drop(write!(out, "content-length: {bytes}\r\n")),
        None => write_line(out, "transfer-encoding", b"chunked"),
    }
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Takes the head of the response to a `method` request out of `input`; `None` while the head is incomplete. Interim
/// responses (1xx) are skipped, and their bytes are added to `interim`. Status 101 is a response if the request asks
/// for this `upgrade`.
///
/// # Errors
/// A clause that describes how the head violates the protocol.
pub(super) fn read_head(
    input: &mut BytesMut,
    method: &Method,
    upgrade: Upgrade,
    interim: &mut usize,
) -> Result<Option<ResponseHead>, String> {
    loop {
        let Some(parsed) = parse(input)? else {
            return Ok(None);
        };
        let bytes = input.split_to(parsed.length).freeze();
        match parsed.status {
            StatusCode::SWITCHING_PROTOCOLS => match upgrade {
                Upgrade::None => return Err("it switched protocols without an upgrade request".to_owned()),
                Upgrade::WebSocket => return parsed.switched(&bytes, method).map(Some),
            },
            status if status.is_informational() => {
                *interim += parsed.length;
                if *interim > MAX_INTERIM {
                    return Err(format!("its interim responses exceed {} KiB", MAX_INTERIM >> 10));
                }
            }
            _ => return parsed.head(&bytes, method).map(Some),
        }
    }
}

/// A head that is parsed from the first `length` bytes of the input.
struct ParsedHead {
    length: usize,
    status: StatusCode,
    /// Minor version of HTTP/1.
    version: u8,
    /// On the heap, so that moving the head between functions is cheap.
    lines: Vec<(HeaderName, Range<usize>)>,
}

fn parse(input: &[u8]) -> Result<Option<ParsedHead>, String> {
    let mut lines = [MaybeUninit::uninit(); MAX_LINES];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, input, &mut lines);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(format!("its head exceeds {} KiB", MAX_HEAD >> 10));
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(format!("its head has more than {MAX_LINES} lines"));
        }
        Err(error) => return Err(format!("its response is not HTTP: {error}")),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let start = input.as_ptr() as usize;
    let line = |line: &httparse::Header<'_>| {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        let at = line.value.as_ptr() as usize - start;
        Some((name, at..at + line.value.len()))
    };
    Ok(Some(ParsedHead {
        length,
        status: status.ok_or("its status is not a number")?,
        version: response.version.unwrap_or(0),
        lines: response.headers.iter().filter_map(line).collect(),
    }))
}

impl ParsedHead {
    /// Builds the head of a response with status 101.
    fn switched(self, bytes: &Bytes, method: &Method) -> Result<ResponseHead, String> {
        let head = self.head(bytes, method)?;
        if names_websocket(head.response.headers()) {
            Ok(ResponseHead { framing: Framing::Ended, keep_alive: false, ..head })
        } else {
            Err("it switched to another protocol than the WebSocket that was asked for".to_owned())
        }
    }

    /// Builds the head. Header values share the memory of `bytes`, from which the head was parsed.
    fn head(self, bytes: &Bytes, method: &Method) -> Result<ResponseHead, String> {
        let mut headers = HeaderMap::with_capacity(self.lines.len() + 4);
        for (name, range) in self.lines {
            if let Ok(value) = HeaderValue::from_maybe_shared(bytes.slice(range)) {
                headers.append(name, value);
            }
        }
        let is_ambiguous = is_ambiguous(&headers, self.version);
        let framing = framing(&mut headers, method, self.status)?;
        let keep_alive = !is_ambiguous && framing != Framing::UntilClose && is_keep_alive(&headers, self.version);
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        Ok(ResponseHead { response, framing, keep_alive })
    }
}

/// Returns the framing of a response's body (RFC 9112, 6.3).
fn framing(headers: &mut HeaderMap, method: &Method, status: StatusCode) -> Result<Framing, String> {
    if *method == Method::HEAD || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status) {
        return Ok(Framing::Ended);
    }
    if header_names::has(headers, &TRANSFER_ENCODING) {
        // Both headers together may be an attempt at request smuggling, so only the transfer coding counts.
        headers.remove(CONTENT_LENGTH);
        return transfer_coding(headers);
    }
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(Framing::UntilClose);
    };
    let first = length(value)?;
    let mut is_clear = *value == itoa::Buffer::new().format(first);
    for other in values {
        if length(other)? != first {
            return Err("it sent two different content-lengths".to_owned());
        }
        is_clear = false;
    }
    if !is_clear {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(first));
    }
    Ok(Framing::Length(first))
}

/// Returns the framing according to `transfer-encoding`. Only `chunked` and `identity`, which encodes nothing, are
/// supported: the header is not forwarded, so no client could decode another coding.
fn transfer_coding(headers: &HeaderMap) -> Result<Framing, String> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = values
        .flat_map(|value| value.to_str().unwrap_or("?").split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty());
    match (codings.next(), codings.next()) {
        (Some(only), None) if only.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked(ChunkState::Size)),
        (Some(only), None) if only.eq_ignore_ascii_case("identity") => Ok(Framing::UntilClose),
        _ => Err("it used an unsupported transfer coding".to_owned()),
    }
}

/// Returns true if implementations may disagree about the end of the body (RFC 9112, 6.1).
fn is_ambiguous(headers: &HeaderMap, version: u8) -> bool {
    let is_coded = header_names::has(headers, &TRANSFER_ENCODING);
    is_coded && (headers.contains_key(CONTENT_LENGTH) || version == 0)
}

/// Parses `content-length`: a number in digits, or a list of equal numbers.
fn length(value: &HeaderValue) -> Result<u64, String> {
    let invalid = || format!("it sent the content-length {value:?}");
    let mut found = None;
    for number in value.to_str().map_err(|_| invalid())?.split(',') {
        let number = number.trim();
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let number: u64 = number.parse().ok().filter(|_| is_number).ok_or_else(invalid)?;
        if found.is_some_and(|found| found != number) {
            return Err(invalid());
        }
        found = Some(number);
    }
    found.ok_or_else(invalid)
}

/// Returns true if the server keeps the connection open, which is the default since HTTP/1.1.
fn is_keep_alive(headers: &HeaderMap, version: u8) -> bool {
    if !header_names::has(headers, &CONNECTION) {
        return version == 1;
    }
    let says = |wanted: &str| {
        let mut options =
            headers.get_all(CONNECTION).iter().flat_map(|value| value.to_str().unwrap_or_default().split(','));
        options.any(|option| option.trim().eq_ignore_ascii_case(wanted))
    };
    !says("close") && (version == 1 || says("keep-alive"))
}

#[cfg(test)]
mod tests;
