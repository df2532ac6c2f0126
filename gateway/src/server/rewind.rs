//! A stream of which something was read ahead.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// Bytes that are read ahead at once: a head and a small body.
const ROOM: usize = 8 << 10;

/// A stream that gives again what was read of it ahead.
#[derive(Debug)]
pub(super) struct Rewind<I> {
    stream: I,
    ahead: BytesMut,
}

impl<I> Rewind<I> {
    /// Nothing was read yet.
    pub(super) fn of(stream: I) -> Self {
        let ahead = BytesMut::new();
        Self { stream, ahead }
    }

    /// What was read ahead.
    pub(super) fn read(&self) -> &[u8] {
        &self.ahead
    }

    /// Takes back what was read and not used.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let after = std::mem::replace(&mut self.ahead, bytes.into());
            self.ahead.extend_from_slice(&after);
        }
    }
}

impl<I: AsyncRead + Unpin> Rewind<I> {
    /// Reads ahead; zero at the end. Holds no memory while there is nothing to read.
    pub(super) async fn read_more(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|context| {
            self.ahead.reserve(ROOM);
            let read = poll_read_buf(Pin::new(&mut self.stream), context, &mut self.ahead);
            if read.is_pending() && self.ahead.is_empty() {
                self.ahead = BytesMut::new();
            }
            read
        })
        .await
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Rewind<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let take = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead[..take]);
        self.ahead.advance(take);
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Rewind<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_read_ahead_comes_first_and_once() {
        let (near, mut far) = tokio::io::duplex(100);
        let mut stream = Rewind::of(near);
        far.write_all(b"three").await.unwrap();
        assert_eq!(stream.read_more().await.unwrap(), 5);
        stream.unread(Bytes::from_static(b"two "));
        stream.unread(Bytes::from_static(b"one "));
        assert_eq!(stream.read(), b"one two three");
        far.write_all(b" four").await.unwrap();
        drop(far);
        let mut all = String::new();
        stream.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "one two three four");
    }

    #[tokio::test]
    async fn who_waits_holds_no_memory() {
        let (near, _far) = tokio::io::duplex(100);
        let mut stream = Rewind::of(near);
        {
            let mut more = std::pin::pin!(stream.read_more());
            let mut context = Context::from_waker(std::task::Waker::noop());
            assert!(more.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(stream.ahead.capacity(), 0);
    }
}
