//! A stream whose bytes can be read ahead and put back.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// Bytes read ahead at once: enough for a head and a small body.
const READ_SIZE: usize = 8 << 10;

/// A stream that yields the bytes that were read ahead before it reads from the socket.
#[derive(Debug)]
pub(super) struct Rewind<I> {
    stream: I,
    buffer: BytesMut,
}

impl<I> Rewind<I> {
    /// Wraps a stream of which nothing has been read yet.
    pub(super) fn of(stream: I) -> Self {
        let buffer = BytesMut::new();
        Self { stream, buffer }
    }

    /// Returns the bytes that were read ahead and are not consumed yet.
    pub(super) fn read_ahead(&self) -> &[u8] {
        &self.buffer
    }

    /// Puts back bytes that were read and not used, in front of the bytes that are still buffered.
    pub(super) fn rewind(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let after = std::mem::replace(&mut self.buffer, bytes.into());
            self.buffer.extend_from_slice(&after);
        }
    }
}

impl<I: AsyncRead + Unpin> Rewind<I> {
    /// Reads ahead and returns the number of bytes; zero means the end of the stream. While no byte arrives, an empty
    /// buffer is freed.
    pub(super) async fn fill_buffer(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|context| {
            self.buffer.reserve(READ_SIZE);
            let read = poll_read_buf(Pin::new(&mut self.stream), context, &mut self.buffer);
            if read.is_pending() && self.buffer.is_empty() {
                self.buffer = BytesMut::new();
            }
            read
        })
        .await
    }

    /// Reads and drops everything up to the end.
    pub(super) async fn discard(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            if self.fill_buffer().await? == 0 {
                return Ok(());
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Rewind<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let take = self.buffer.len().min(buffer.remaining());
        buffer.put_slice(&self.buffer[..take]);
        self.buffer.advance(take);
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Rewind<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
    async fn bytes_read_ahead_come_first_and_once() {
        let (near, mut far) = tokio::io::duplex(100);
        let mut stream = Rewind::of(near);
        far.write_all(b"three").await.unwrap();
        assert_eq!(stream.fill_buffer().await.unwrap(), 5);
        stream.rewind(Bytes::from_static(b"two "));
        stream.rewind(Bytes::from_static(b"one "));
        assert_eq!(stream.read_ahead(), b"one two three");
        far.write_all(b" four").await.unwrap();
        drop(far);
        let mut all = String::new();
        stream.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "one two three four");
    }

    #[tokio::test]
    async fn a_waiting_stream_holds_no_memory() {
        let (near, _far) = tokio::io::duplex(100);
        let mut stream = Rewind::of(near);
        {
            let mut more = std::pin::pin!(stream.fill_buffer());
            let mut context = Context::from_waker(std::task::Waker::noop());
            assert!(more.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(stream.buffer.capacity(), 0);
    }
}
