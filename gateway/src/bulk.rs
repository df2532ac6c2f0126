//! Sockets under HTTP/2, read and written in large pieces.
//!
//! The library below reads a frame at a time and writes each by a system call of its own, 16 KiB at most; on
//! a busy connection that is most of what a request costs. Here what it writes is gathered while its
//! connection is being worked on, and goes out when that is done ([`Flushed`]); what is read is read as
//! far as there is room and handed on in the library's portions. A connection that speaks HTTP/1.1 passes
//! through untouched: its library does all this by itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// Bytes gathered before they are written: eight frames. Copying them costs less than a system call each, as
/// long as they stay in the processor's second cache.
const GATHERED: usize = 128 << 10;

/// Room for a read on a quiet connection, and on one whose reads come back full: sixteen frames.
const ROOM: usize = 8 << 10;
const MOST_ROOM: usize = 256 << 10;

/// How HTTP/2 begins. No method of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI";

/// One end of a socket, for the library.
pub(crate) struct Bulk<S>(Arc<Mutex<Socket<S>>>);

/// The other end, for [`Flushed`].
pub(crate) struct Outlet<S>(Arc<Mutex<Socket<S>>>);

pin_project! {
    /// Work on a connection over a [`Bulk`]; after each piece of it what was written goes out.
    pub(crate) struct Flushed<C, S> {
        #[pin]
        pub(crate) connection: C,
        outlet: Outlet<S>,
    }
}

struct Socket<S> {
    stream: S,
    mode: Mode,
    input: BytesMut,
    room: usize,
    output: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing was read yet.
    Unknown,
    /// Not HTTP/2.
    Through,
    /// HTTP/2.
    Gather,
}

impl<S> Bulk<S> {
    /// For a socket whose peer says by its first bytes what it speaks.
    pub(crate) fn accepted(stream: S) -> Self {
        Self::new(stream, Mode::Unknown)
    }

    /// For a socket on which HTTP/2 is spoken.
    pub(crate) fn http2(stream: S) -> Self {
        Self::new(stream, Mode::Gather)
    }

    fn new(stream: S, mode: Mode) -> Self {
        Self(Arc::new(Mutex::new(Socket {
            stream,
            mode,
            input: BytesMut::new(),
            room: ROOM,
            output: BytesMut::new(),
        })))
    }

    /// The other end.
    pub(crate) fn outlet(&self) -> Outlet<S> {
        Outlet(Arc::clone(&self.0))
    }
}

impl<C, S> Flushed<C, S> {
    /// `connection` uses the socket whose outlet this is.
    pub(crate) fn new(connection: C, outlet: Outlet<S>) -> Self {
        Self { connection, outlet }
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
        let ended = this.connection.poll(context);
        // An error shows when the connection reads or writes next.
        let _ = this.outlet.0.lock().flush(context);
        ended
    }
}

impl<S: AsyncRead + Unpin> Socket<S> {
    fn read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.mode == Mode::Through {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        if self.input.is_empty() {
            ready!(self.refill(context))?;
        }
        let take = self.input.len().min(buffer.remaining());
        buffer.put_slice(&self.input[..take]);
        self.input.advance(take);
        Poll::Ready(Ok(()))
    }

    fn refill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.reserve(self.room);
        let read = match poll_read_buf(Pin::new(&mut self.stream), context, &mut self.input) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                // A quiet connection holds no memory.
                self.input = BytesMut::new();
                return Poll::Pending;
            }
        };
        self.room = match read {
            full if full >= self.room => (2 * self.room).min(MOST_ROOM),
            low if low < self.room / 4 => (self.room / 2).max(ROOM),
            _ => self.room,
        };
        if self.mode == Mode::Unknown {
            self.mode = match self.input.starts_with(PREFACE) {
                true => Mode::Gather,
                false => Mode::Through,
            };
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Socket<S> {
    fn write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.mode != Mode::Gather {
            return Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        }
        if self.output.len() + total > GATHERED {
            ready!(self.flush(context))?;
        }
        if total > GATHERED {
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
            self.output.advance(written);
        }
        if self.output.capacity() > 0 {
            self.output = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bulk<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.lock().read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bulk<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
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

    /// What is gathered stays until its [`Flushed`] sends it.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.0.lock();
        match socket.mode {
            Mode::Gather => Poll::Ready(Ok(())),
            Mode::Unknown | Mode::Through => Pin::new(&mut socket.stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.0.lock();
        ready!(socket.flush(context))?;
        Pin::new(&mut socket.stream).poll_shutdown(context)
    }
}
