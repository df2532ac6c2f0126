//! Buffered sockets for HTTP/2, read and written in large pieces.
//!
//! The HTTP/2 library reads one frame at a time and writes each frame, 16 KiB at most, by its own system call; on a
//! busy connection that is most of a request's cost. Here writes are buffered while the connection is polled and
//! flushed after each poll ([`Flushed`]). Reads fill a buffer, from which the library reads. The HTTP/1.1 library
//! buffers by itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::http2::frame_budget::FrameBudget;

/// Bytes that are buffered before they are written: eight frames. Copying them costs less than a system call for each
/// frame, as long as they stay in the processor's level-2 cache.
const MAX_BUFFERED: usize = 128 << 10;

/// Smallest size in bytes of a read into the buffer. The size starts at this value, and doubles up to [`MAX_READ_SIZE`]
/// while reads fill the buffer.
const MIN_READ_SIZE: usize = 8 << 10;
/// Largest size in bytes of a read into the buffer: sixteen frames.
const MAX_READ_SIZE: usize = 256 << 10;

/// Maximum number of reads by the library in one poll of the connection; other tasks are polled next. A read returns at
/// most one large frame, or several small ones, whose number the [`FrameBudget`] limits.
const READS_A_POLL: usize = 4;

/// The half of a socket that the HTTP/2 library reads and writes.
pub struct BufferedSocket<S>(Arc<Mutex<Socket<S>>>);

/// The half of a socket that [`Flushed`] flushes.
pub struct SocketFlusher<S>(Arc<Mutex<Socket<S>>>);

pin_project! {
    /// A connection over a [`BufferedSocket`]. After each poll, buffered bytes are written to the socket.
    pub struct Flushed<C, S> {
        #[pin]
        connection: C,
        flusher: SocketFlusher<S>,
    }
}

struct Socket<S> {
    stream: S,
    input: BytesMut,
    read_size: usize,
    /// Reads that the library may still do in this poll.
    reads_left: usize,
    frames: FrameBudget,
    output: BytesMut,
    /// True if written bytes may still be buffered in the stream itself, as TLS does.
    needs_flush: bool,
    /// Error of the last flush; once set, every read and write fails with it.
    broken: Option<io::ErrorKind>,
}

impl<S> BufferedSocket<S> {
    /// Wraps a socket of an HTTP/2 connection.
    pub fn http2(stream: S) -> Self {
        let mut socket = Socket {
            stream,
            input: BytesMut::new(),
            read_size: MIN_READ_SIZE,
            reads_left: 0,
            frames: FrameBudget::default(),
            output: BytesMut::new(),
            needs_flush: false,
            broken: None,
        };
        socket.begin_turn();
        Self(Arc::new(Mutex::new(socket)))
    }

    /// Returns the half that [`Flushed::new`] takes.
    pub fn flusher(&self) -> SocketFlusher<S> {
        SocketFlusher(Arc::clone(&self.0))
    }
}

impl<C, S> Flushed<C, S> {
    /// Wraps a connection that uses the socket of `flusher`.
    pub fn new(connection: C, flusher: SocketFlusher<S>) -> Self {
        Self { connection, flusher }
    }

    /// Returns the wrapped connection.
    pub fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C, S> Future for Flushed<C, S>
where
    C: Future,
    S: AsyncWrite + Unpin,
{
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.flusher.0.lock().begin_turn();
        let ended = this.connection.poll(context);
        let mut socket = this.flusher.0.lock();
        if let Poll::Ready(Err(error)) = socket.flush(context) {
            // The connection receives the error at its next read or write, so it is woken to do one now.
            socket.broken = Some(error.kind());
            context.waker().wake_by_ref();
        }
        ended
    }
}

impl<S> Socket<S> {
    fn begin_turn(&mut self) {
        self.reads_left = READS_A_POLL;
        self.frames.renew();
    }
}

impl<S: AsyncRead + Unpin> Socket<S> {
    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(left) = self.reads_left.checked_sub(1) else {
            return next_turn(context);
        };
        self.reads_left = left;
        if let Some(broken) = self.broken {
            return Poll::Ready(Err(broken.into()));
        }
        if self.input.is_empty() && self.frames.rest().min(buffer.remaining()) >= self.read_size {
            return self.pass(context, buffer);
        }
        if self.input.is_empty() {
            ready!(self.refill(context))?;
        }
        let there = self.input.len().min(buffer.remaining());
        let take = self.frames.take(&self.input[..there]);
        if take == 0 && there > 0 {
            return next_turn(context);
        }
        buffer.put_slice(&self.input[..take]);
        self.input.advance(take);
        Poll::Ready(Ok(()))
    }

    /// Reads the rest of a large frame straight into the library's buffer.
    fn pass(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut rest = buffer.limit(self.frames.rest());
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut rest))?;
        self.frames.pass(read);
        Poll::Ready(Ok(()))
    }

    fn refill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.reserve(self.read_size);
        let read = match poll_read_buf(Pin::new(&mut self.stream), context, &mut self.input) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                // An idle connection keeps no buffer in memory.
                self.input = BytesMut::new();
                return Poll::Pending;
            }
        };
        self.read_size = match read {
            full if full >= self.read_size => (2 * self.read_size).min(MAX_READ_SIZE),
            low if low < self.read_size / 4 => (self.read_size / 2).max(MIN_READ_SIZE),
            _ => self.read_size,
        };
        Poll::Ready(Ok(()))
    }
}

/// Yields to other tasks, and schedules another poll of the connection.
fn next_turn(context: &Context<'_>) -> Poll<io::Result<()>> {
    context.waker().wake_by_ref();
    Poll::Pending
}

impl<S: AsyncWrite + Unpin> Socket<S> {
    fn write(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if let Some(broken) = self.broken {
            return Poll::Ready(Err(broken.into()));
        }
        if self.output.len() + total > MAX_BUFFERED {
            ready!(self.flush(context))?;
        }
        if total > MAX_BUFFERED {
            self.needs_flush = true;
            return Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        }
        for slice in slices {
            self.output.extend_from_slice(slice);
        }
        Poll::Ready(Ok(total))
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.output))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.needs_flush = true;
            self.output.advance(written);
        }
        if self.output.capacity() > 0 {
            self.output = BytesMut::new();
        }
        if self.needs_flush {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BufferedSocket<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.lock().read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BufferedSocket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: buffered bytes are written by [`Flushed`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.0.lock();
        ready!(socket.flush(context))?;
        Pin::new(&mut socket.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::http2::frame_budget::FRAMES_A_POLL;

    /// Returns bytes in which neighbours differ, so that lost or reordered bytes are noticed.
    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i % 251) as u8).collect()
    }

    #[tokio::test]
    async fn buffered_bytes_are_written_after_the_poll() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut socket = BufferedSocket::http2(near);
        let flusher = socket.flusher();
        let mut work = Box::pin(Flushed::new(
            poll_fn(move |context| {
                for piece in [&b"one "[..], b"two ", b"three"] {
                    assert!(Pin::new(&mut socket).poll_write(context, piece).is_ready());
                }
                assert!(Pin::new(&mut socket).poll_flush(context).is_ready());
                Poll::<()>::Pending
            }),
            flusher,
        ));
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
        let mut got = [0; 13];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"one two three");
    }

    #[tokio::test]
    async fn nothing_is_lost_or_reordered_through_a_narrow_socket() {
        let (near, far) = tokio::io::duplex(1000);
        let (mut far_in, mut far_out) = tokio::io::split(far);
        let sent = pattern(700_000);
        let mut socket = BufferedSocket::http2(near);
        let flusher = socket.flusher();
        let echo = async move {
            let mut got = vec![0; 700_000];
            for piece in got.chunks_mut(33_333) {
                socket.read_exact(piece).await.unwrap();
                socket.write_all(piece).await.unwrap();
            }
            socket.shutdown().await.unwrap();
        };
        let mut back = Vec::new();
        tokio::join!(Flushed::new(echo, flusher), async { far_out.write_all(&sent).await.unwrap() }, async {
            assert_eq!(far_in.read_to_end(&mut back).await.unwrap(), 700_000);
        },);
        assert!(back == sent);
    }

    /// Returns the number of bytes that a connection has read after each of its first polls, and at the end.
    async fn read_in_turns(bytes: Vec<u8>, turns: usize) -> Vec<usize> {
        let (near, mut far) = tokio::io::duplex(bytes.len());
        far.write_all(&bytes).await.unwrap();
        let mut socket = BufferedSocket::http2(near);
        let flusher = socket.flusher();
        let taken = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&taken);
        let reads = async move {
            let mut piece = [0; 8 << 10];
            while let Ok(read) = socket.read(&mut piece).await {
                *seen.lock() += read;
            }
        };
        let mut work = std::pin::pin!(Flushed::new(reads, flusher));
        let mut read = Vec::new();
        for _ in 0..turns {
            let woken = poll_fn(|context| {
                assert!(work.as_mut().poll(context).is_pending());
                Poll::Ready(())
            });
            woken.await;
            read.push(*taken.lock());
        }
        // The connection continues without being woken from outside.
        tokio::select! {
            () = work => {}
            () = async {
                while *taken.lock() < bytes.len() {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        read
    }

    #[tokio::test]
    async fn a_connection_with_much_to_read_gives_others_a_turn() {
        let turn = READS_A_POLL * (8 << 10);
        let read = read_in_turns(pattern(1 << 20), 9).await;
        let wanted: Vec<_> = (1..10).map(|turns| turns * turn).collect();
        assert_eq!(read, wanted);
    }

    #[tokio::test]
    async fn a_turn_of_small_frames_is_shorter() {
        let one_byte = b"\0\0\x01\0\0\0\0\0\x01a";
        let turn = FRAMES_A_POLL * one_byte.len();
        let read = read_in_turns(one_byte.repeat(10 * FRAMES_A_POLL), 9).await;
        let wanted: Vec<_> = (1..10).map(|turns| turns * turn).collect();
        assert_eq!(read, wanted);
    }

    /// A stream that buffers all writes, and passes them on only when it is flushed.
    struct Deep {
        stream: tokio::io::DuplexStream,
        taken: BytesMut,
    }

    impl AsyncRead for Deep {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Deep {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.taken.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            let this = &mut *self;
            while !this.taken.is_empty() {
                let written = ready!(Pin::new(&mut this.stream).poll_write(context, &this.taken))?;
                this.taken.advance(written);
            }
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.as_mut().poll_flush(context))?;
            Pin::new(&mut self.stream).poll_shutdown(context)
        }
    }

    #[tokio::test]
    async fn bytes_that_the_stream_buffers_are_flushed_too() {
        for length in [10, 1000, MAX_BUFFERED + 1] {
            let (near, mut far) = tokio::io::duplex(100);
            let mut socket = BufferedSocket::http2(Deep { stream: near, taken: BytesMut::new() });
            let flusher = socket.flusher();
            let sent = pattern(length);
            let (permission, permitted) = tokio::sync::oneshot::channel();
            let work = async {
                socket.write_all(&sent).await.unwrap();
                // No further write flushes the bytes while the other end reads them.
                permitted.await.unwrap();
            };
            let read = async {
                let mut got = vec![0; length];
                far.read_exact(&mut got).await.unwrap();
                permission.send(()).unwrap();
                got
            };
            let ((), got) = tokio::join!(Flushed::new(work, flusher), read);
            assert!(got == sent);
        }
    }

    #[tokio::test]
    async fn a_socket_that_breaks_while_flushing_is_broken_for_its_connection() {
        let (near, far) = tokio::io::duplex(1000);
        let mut socket = BufferedSocket::http2(near);
        let flusher = socket.flusher();
        drop(far);
        let work = async move {
            socket.write_all(b"lost").await.unwrap();
            tokio::task::yield_now().await;
            socket.write_all(b"more").await
        };
        assert!(Flushed::new(work, flusher).await.is_err());
    }
}
