//! The heads of requests and responses, as bytes (RFC 9112, 3 to 6).

use std::io::Write as _;
use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, Response, StatusCode};
use http_body::Body as _;
use smallvec::SmallVec;

use super::framing::{Chunk, Framing};
use crate::upstream::RequestBody;
use crate::upstream::UpstreamRequest;

/// A response's head at most: four times what common servers send at all.
const HEAD: usize = 64 << 10;

/// Lines of a head at most, each a quarter of a KiB then, which is longer than common ones; common servers
/// allow 100 to 200.
const LINES: usize = 256;

/// How long a request's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Known(u64),
    Unknown,
}

/// Whether a connection can carry another request after this response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    Yes,
    No,
}

/// What a response's head says.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    pub(super) reuse: Reuse,
}

impl Length {
    pub(super) fn of(body: &RequestBody) -> Self {
        let exact = body.size_hint().exact();
        exact.map_or(Self::Unknown, Self::Known)
    }
}

/// Writes a request's head. What tells where its body ends is written anew.
pub(super) fn write_head(out: &mut Vec<u8>, request: &UpstreamRequest<'_>, length: Length) {
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.path.as_str().as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.lines() {
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name) {
            write_line(out, name.as_str(), value.as_bytes());
        }
    }
    let has_body = [Method::POST, Method::PUT, Method::PATCH].contains(request.method);
    match length {
        Length::Known(0) if !has_body && !request.headers.contains_key(CONTENT_LENGTH) => {}
        // A growing buffer takes whatever is written.
        Length::Known(bytes) => drop(write!(out, "content-length: {bytes}\r\n")),
        Length::Unknown => write_line(out, "transfer-encoding", b"chunked"),
    }
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Takes a head out of `input`, the answer to a request by `method`; `None` while it is not whole.
/// Interim responses (1xx) are passed over.
///
/// # Errors
/// A clause about what is no head.
pub(super) fn read_head(input: &mut BytesMut, method: &Method) -> Result<Option<Head>, String> {
    loop {
        let Some(parsed) = parse(input)? else {
            return Ok(None);
        };
        let bytes = input.split_to(parsed.length).freeze();
        match parsed.status {
            StatusCode::SWITCHING_PROTOCOLS => {
                return Err("it switched protocols unasked".to_owned());
            }
            status if status.is_informational() => {}
            _ => return parsed.head(&bytes, method).map(Some),
        }
    }
}

/// A head that lies in the first `length` bytes.
struct Parsed {
    length: usize,
    status: StatusCode,
    /// The minor version of HTTP/1.
    version: u8,
    lines: SmallVec<[(HeaderName, Range<usize>); 16]>,
}

fn parse(input: &[u8]) -> Result<Option<Parsed>, String> {
    let mut lines = [MaybeUninit::uninit(); LINES];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, input, &mut lines);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => return Err("its head has no end".to_owned()),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(format!("its head has more than {LINES} lines"));
        }
        Err(error) => return Err(format!("it answered with no HTTP: {error}")),
    };
    let status = response
        .code
        .and_then(|code| StatusCode::from_u16(code).ok());
    let start = input.as_ptr() as usize;
    let line = |line: &httparse::Header<'_>| {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        let at = line.value.as_ptr() as usize - start;
        Some((name, at..at + line.value.len()))
    };
    Ok(Some(Parsed {
        length,
        status: status.ok_or("its status is no number")?,
        version: response.version.unwrap_or(0),
        lines: response.headers.iter().filter_map(line).collect(),
    }))
}

impl Parsed {
    /// `bytes` are those it was parsed from; values share their memory.
    fn head(self, bytes: &Bytes, method: &Method) -> Result<Head, String> {
        let mut headers = HeaderMap::with_capacity(self.lines.len() + 4);
        for (name, range) in self.lines {
            if let Ok(value) = HeaderValue::from_maybe_shared(bytes.slice(range)) {
                headers.append(name, value);
            }
        }
        let is_doubtful = is_doubtful(&headers, self.version);
        let framing = framing(&mut headers, method, self.status)?;
        let reuse = match framing {
            _ if is_doubtful => Reuse::No,
            Framing::UntilClose => Reuse::No,
            Framing::Length(_) | Framing::Chunked(_) | Framing::Ended => {
                reuse(&headers, self.version)
            }
        };
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        Ok(Head {
            response,
            framing,
            reuse,
        })
    }
}

/// RFC 9112, 6.3.
fn framing(
    headers: &mut HeaderMap,
    method: &Method,
    status: StatusCode,
) -> Result<Framing, String> {
    if *method == Method::HEAD
        || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
    {
        return Ok(Framing::Ended);
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        // Who says both may mean to smuggle: the coding counts.
        headers.remove(CONTENT_LENGTH);
        return coding(headers);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter().map(length);
    let Some(first) = lengths.next() else {
        return Ok(Framing::UntilClose);
    };
    let first = first?;
    for other in lengths {
        if other? != first {
            return Err("it announced two lengths".to_owned());
        }
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(first));
    Ok(Framing::Length(first))
}

/// Of the codings only chunks are ever asked for: what is coded otherwise nobody behind us could read, who is
/// not told of it.
fn coding(headers: &HeaderMap) -> Result<Framing, String> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = values
        .flat_map(|value| value.to_str().unwrap_or("?").split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty());
    match (codings.next(), codings.next()) {
        (Some(only), None) if only.eq_ignore_ascii_case("chunked") => {
            Ok(Framing::Chunked(Chunk::Size))
        }
        (Some(only), None) if only.eq_ignore_ascii_case("identity") => Ok(Framing::UntilClose),
        _ => Err("it used a transfer coding that nobody asked for".to_owned()),
    }
}

/// Whether servers may differ in where such a body ends (RFC 9112, 6.1).
fn is_doubtful(headers: &HeaderMap, version: u8) -> bool {
    let is_coded = headers.contains_key(TRANSFER_ENCODING);
    is_coded && (headers.contains_key(CONTENT_LENGTH) || version == 0)
}

/// Digits and nothing else; a list of equal numbers is one too.
fn length(value: &HeaderValue) -> Result<u64, String> {
    let wrong = || format!("it announced the length {value:?}");
    let mut found = None;
    for number in value.to_str().map_err(|_| wrong())?.split(',') {
        let number = number.trim();
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let number: u64 = number
            .parse()
            .ok()
            .filter(|_| is_number)
            .ok_or_else(wrong)?;
        if found.is_some_and(|found| found != number) {
            return Err(wrong());
        }
        found = Some(number);
    }
    found.ok_or_else(wrong)
}

fn reuse(headers: &HeaderMap, version: u8) -> Reuse {
    let says = |what: &str| {
        let options = headers.get_all(CONNECTION).iter();
        let mut options = options.flat_map(|value| value.to_str().unwrap_or_default().split(','));
        options.any(|option| option.trim().eq_ignore_ascii_case(what))
    };
    match version {
        _ if says("close") => Reuse::No,
        1 => Reuse::Yes,
        _ if says("keep-alive") => Reuse::Yes,
        _ => Reuse::No,
    }
}

#[cfg(test)]
mod tests;
