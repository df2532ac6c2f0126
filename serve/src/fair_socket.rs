//! Sockets for ports that speak HTTP/1.1 and HTTP/2; each connection yields to others after some frames.
//!
//! The HTTP/2 library reads as long as there are bytes, so one client that sends a hundred thousand small frames would
//! occupy a thread. Here each connection yields to other tasks after [some frames](super::frame_budget). HTTP/1.1 is
//! read one request at a time and needs no such limit. Ports that only speak HTTP/2 use
//! [`BufferedSocket`](super::BufferedSocket), which has the same limit.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::http2::frame_budget::FrameBudget;

/// First bytes of an HTTP/2 connection; no HTTP/1.1 request begins with them.
const PREFACE: &[u8] = b"PRI";

/// A socket whose reader yields to other tasks after some HTTP/2 frames.
#[derive(Debug)]
pub struct FairSocket<S> {
    stream: S,
    protocol: DetectedProtocol,
    frames: FrameBudget,
}

/// Protocol of a connection, detected by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetectedProtocol {
    /// Number of bytes received so far, all of which match the HTTP/2 preface.
    Unknown(usize),
    Http2,
    Other,
}

impl<S> FairSocket<S> {
    /// Wraps the socket of a client that has not sent anything yet.
    pub fn new(stream: S) -> Self {
        let mut frames = FrameBudget::default();
        frames.renew();
        Self { stream, protocol: DetectedProtocol::Unknown(0), frames }
    }
}

impl DetectedProtocol {
    /// Returns the protocol as known after these bytes.
    fn after(self, bytes: &[u8]) -> Self {
        let Self::Unknown(known) = self else {
            return self;
        };
        let wanted = &PREFACE[known..];
        let common = wanted.len().min(bytes.len());
        if wanted[..common] != bytes[..common] {
            Self::Other
        } else if common == wanted.len() {
            Self::Http2
        } else {
            Self::Unknown(known + common)
        }
    }
}

impl<S: AsyncRead + Unpin> FairSocket<S> {
    /// Reads at most the bytes that are certain to stay within the turn's frames, however small the frames are.
    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.frames.is_spent() {
            self.frames.renew();
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let mut part = (&mut *buffer).limit(self.frames.least());
        ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut part))?;
        let bytes = &buffer.filled()[before..];
        self.protocol = self.protocol.after(bytes);
        self.frames.take(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FairSocket<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.protocol {
            DetectedProtocol::Other => Pin::new(&mut this.stream).poll_read(context, buffer),
            DetectedProtocol::Unknown(_) | DetectedProtocol::Http2 => this.read(context, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FairSocket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::http2::frame_budget::FRAMES_A_POLL;

    const ONE_BYTE: &[u8] = b"\0\0\x01\0\0\0\0\0\x01a";

    /// Returns the number of bytes that are read before the reader yields, when all of `bytes` have arrived.
    async fn first_turn(bytes: &[u8]) -> usize {
        let mut socket = FairSocket::new(bytes);
        let mut read = 0;
        poll_fn(|context| {
            let mut space = [0; 8 << 10];
            loop {
                let mut buffer = ReadBuf::new(&mut space);
                if socket.read_any(context, &mut buffer).is_pending() || buffer.filled().is_empty() {
                    return Poll::Ready(());
                }
                read += buffer.filled().len();
            }
        })
        .await;
        read
    }

    impl<S: AsyncRead + Unpin> FairSocket<S> {
        fn read_any(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Pin::new(self).poll_read(context, buffer)
        }
    }

    #[tokio::test]
    async fn http2_frames_are_read_in_turns_and_http1_without_a_limit() {
        let frames = ONE_BYTE.repeat(10 * FRAMES_A_POLL);
        let begun = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frames].concat();
        // The preface counts as one frame.
        let turn = 24 + (FRAMES_A_POLL - 1) * ONE_BYTE.len();
        assert_eq!(first_turn(&begun).await, turn);
        let other = [&b"POST / HTTP/1.1\r\n"[..], &frames].concat();
        assert_eq!(first_turn(&other).await, other.len());
        let large = [&begun[..24], &b"\x03\xff\xf7\0\0\0\0\0\x01"[..], &[0; 0x3_fff7]].concat();
        assert_eq!(first_turn(&large).await, large.len());
    }

    #[test]
    fn the_protocol_is_detected_by_the_first_bytes() {
        let protocol = DetectedProtocol::Unknown(0);
        assert_eq!(protocol.after(b"PR"), DetectedProtocol::Unknown(2));
        assert_eq!(protocol.after(b"PR").after(b"I *"), DetectedProtocol::Http2);
        assert_eq!(protocol.after(b"P").after(b"OST /"), DetectedProtocol::Other);
        assert_eq!(DetectedProtocol::Other.after(b"PRI"), DetectedProtocol::Other);
    }
}
