//! Writes a request to a socket, while its body may still be arriving.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::Body as _;
use tokio::io::AsyncWrite;

use super::head::write_head;
use crate::upstream::RequestBody;
use crate::upstream::UpstreamRequest;

/// Maximum number of buffers written by one system call; few bodies have more.
const MAX_SLICES: usize = 16;

/// Size up to which head and body are copied into one buffer, because the copy costs less than a second buffer in the
/// system call.
const INLINE_LIMIT: usize = 8192;

/// The part of a request that is not written yet; empty between requests.
#[derive(Default)]
pub(super) struct RequestWriter {
    /// The head and the small buffers after it. The next request reuses its memory.
    inline: Vec<u8>,
    written: usize,
    queue: VecDeque<Bytes>,
    body: Option<(RequestBody, BodyEncoding)>,
    /// True until the socket has flushed what was written.
    is_unflushed: bool,
}

/// Encoding of a request's body.
#[derive(Clone, Copy, Debug)]
enum BodyEncoding {
    /// Body of known length, with the bytes that have not arrived yet.
    Length(u64),
    Chunked,
}

impl RequestWriter {
    /// Begins to write a request; the previous request must be done.
    pub(super) fn start(&mut self, request: UpstreamRequest<'_>) {
        let length = request.body.size_hint().exact();
        self.inline.clear();
        self.written = 0;
        write_head(&mut self.inline, &request, length);
        let encoding = length.map_or(BodyEncoding::Chunked, BodyEncoding::Length);
        self.body = Some((request.body, encoding));
        self.is_unflushed = true;
    }

    /// Returns true if the whole request is written.
    pub(super) fn is_done(&self) -> bool {
        self.body.is_none() && !self.is_unflushed && self.queue.is_empty() && self.written == self.inline.len()
    }

    /// Writes until the whole request is written. Pending while the body's next data has not arrived.
    pub(super) fn poll<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        loop {
            self.fill(context)?;
            if self.written == self.inline.len() && self.queue.is_empty() {
                // TLS may keep bytes that the socket did not take yet.
                ready!(Pin::new(&mut *stream).poll_flush(context))?;
                self.is_unflushed = false;
                return match self.body {
                    Some(_) => Poll::Pending,
                    None => Poll::Ready(Ok(())),
                };
            }
            let written = ready!(self.write(stream, context))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
    }

    /// Moves the data that the body has ready into the queue.
    fn fill(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.queue.len() < MAX_SLICES
            && let Some((body, encoding)) = &mut self.body
        {
            let encoding = *encoding;
            match Pin::new(body).poll_frame(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.take(data, encoding)?;
                    }
                }
                Poll::Ready(Some(Err(error))) => return Err(io::Error::other(error)),
                Poll::Ready(None) => {
                    self.body = None;
                    self.end(encoding)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, data: Bytes, encoding: BodyEncoding) -> io::Result<()> {
        match encoding {
            BodyEncoding::Length(left) => {
                let left = left
                    .checked_sub(data.len() as u64)
                    .ok_or_else(|| io::Error::other("the body is longer than announced"))?;
                if let Some((_, encoding)) = &mut self.body {
                    *encoding = BodyEncoding::Length(left);
                }
                self.push(data);
            }
            // An empty chunk would end the body.
            BodyEncoding::Chunked if data.is_empty() => {}
            BodyEncoding::Chunked => {
                let mut size = Vec::with_capacity(18);
                write!(size, "{:x}\r\n", data.len())?;
                self.push(size.into());
                self.push(data);
                self.push(Bytes::from_static(b"\r\n"));
            }
        }
        Ok(())
    }

    fn end(&mut self, encoding: BodyEncoding) -> io::Result<()> {
        match encoding {
            BodyEncoding::Length(0) => Ok(()),
            BodyEncoding::Length(_) => Err(io::Error::other("the body is shorter than announced")),
            BodyEncoding::Chunked => {
                self.push(Bytes::from_static(b"0\r\n\r\n"));
                Ok(())
            }
        }
    }

    fn push(&mut self, data: Bytes) {
        if self.queue.is_empty() && self.inline.len() + data.len() <= INLINE_LIMIT {
            self.inline.extend_from_slice(&data);
        } else {
            self.queue.push_back(data);
        }
    }

    fn write<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<io::Result<usize>>
    where
        S: AsyncWrite + Unpin,
    {
        let inline = &self.inline[self.written..];
        if self.queue.is_empty() {
            return Pin::new(stream).poll_write(context, inline);
        }
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let pieces =
            std::iter::once(inline).chain(self.queue.iter().map(|piece| &piece[..])).filter(|piece| !piece.is_empty());
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        Pin::new(stream).poll_write_vectored(context, &slices[..count])
    }

    fn advance(&mut self, mut written: usize) {
        let first = written.min(self.inline.len() - self.written);
        self.written += first;
        written -= first;
        if self.written == self.inline.len() {
            self.inline.clear();
            self.written = 0;
        }
        while let Some(piece) = self.queue.front_mut() {
            if piece.len() > written {
                piece.advance(written);
                return;
            }
            written -= piece.len();
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use std::sync::LazyLock;

    use http::uri::PathAndQuery;
    use http::{HeaderMap, Method};
    use http_body_util::BodyExt;
    use proptest::prelude::*;

    use super::*;

    /// A stream that accepts at most `most` bytes per write.
    struct SlowStream {
        most: usize,
        got: Vec<u8>,
    }

    impl AsyncWrite for SlowStream {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let take = bytes.len().min(self.most);
            self.got.extend_from_slice(&bytes[..take]);
            Poll::Ready(Ok(take))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let mut left = self.most;
            for slice in slices {
                let take = slice.len().min(left);
                self.got.extend_from_slice(&slice[..take]);
                left -= take;
            }
            Poll::Ready(Ok(self.most - left))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    static ROOT: LazyLock<PathAndQuery> = LazyLock::new(|| PathAndQuery::from_static("/"));
    static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);

    fn posted(chunks: &[usize]) -> (UpstreamRequest<'static>, Vec<u8>) {
        let chunks = chunks.iter().enumerate();
        let chunks: smallvec::SmallVec<_> =
            chunks.map(|(i, len)| Bytes::from(vec![b'a' + (i % 26) as u8; *len])).collect();
        let plain = chunks.concat();
        let body = RequestBody::whole(chunks, None);
        let request = UpstreamRequest::plain(&Method::POST, &ROOT, &NO_HEADERS, body);
        (request, plain)
    }

    proptest! {
        #[test]
        fn a_request_is_written_in_order_however_writes_are_split(
            chunks in proptest::collection::vec(0_usize..9000, 0..40),
            most in 1_usize..70_000,
        ) {
            let (request, plain) = posted(&chunks);
            let mut stream = SlowStream { most, got: Vec::new() };
            let mut writer = RequestWriter::default();
            for _ in 0..2 {
                stream.got.clear();
                writer.start(posted(&chunks).0);
                let done = writer.poll(&mut stream, &mut Context::from_waker(Waker::noop()));
                prop_assert!(matches!(done, Poll::Ready(Ok(()))));
                prop_assert!(writer.is_done());
                let head = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", plain.len());
                prop_assert!(stream.got.starts_with(head.as_bytes()));
                prop_assert!(stream.got[head.len()..] == plain);
            }
            drop(request);
        }
    }

    #[test]
    fn a_body_longer_than_announced_is_an_error() {
        let (request, _) = posted(&[10]);
        let mut writer = RequestWriter::default();
        writer.start(request);
        if let Some((_, encoding)) = &mut writer.body {
            *encoding = BodyEncoding::Length(9);
        }
        let mut stream = SlowStream { most: 99, got: Vec::new() };
        let done = writer.poll(&mut stream, &mut Context::from_waker(Waker::noop()));
        assert!(matches!(done, Poll::Ready(Err(_))));
        let whole = posted(&[1]).0.body.collect();
        drop(whole);
    }
}
