//! HTTP/2 limits, shared by all ports that serve inference and by connections to replicas.

use std::time::Duration;

/// Flow-control window of a stream in bytes. A common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives without a
/// wait for `WINDOW_UPDATE`.
pub const STREAM_WINDOW: u32 = 1 << 20;

/// Flow-control window of a connection in bytes: eight full streams.
pub const CONNECTION_WINDOW: u32 = 8 * STREAM_WINDOW;

/// Maximum frame size in bytes. Frames of this size cost a sixteenth of the work of the usual 16 KiB frames, and a
/// client can make a connection buffer no more than this before the request is checked.
pub const MAX_FRAME: u32 = 256 << 10;

/// Maximum size in bytes of the request head that a runtime accepts: the 16 KiB that the HTTP/2 library accepts at a
/// gateway, plus half as much for the headers that the gateway adds.
pub const MAX_REPLICA_HEAD: u32 = 24 << 10;

/// Maximum size in bytes of a request head on ports for operators and other programs. A scrape's head has a few hundred
/// bytes; the HTTP/1.1 library supports no smaller buffer than this.
pub const MAX_CONTROL_HEAD: u32 = 8 << 10;

/// Maximum number of concurrent streams of one connection; a client that needs more opens another connection.
pub const MAX_STREAMS: u32 = 1024;

/// The longest head of a request over HTTP/2 by default, in bytes: the library's own default.
const MAX_HEAD: u32 = 16 << 10;

/// Limits of HTTP/2 on the connections of a port.
#[derive(Clone, Copy, Debug)]
pub struct Http2Limits {
    /// Maximum number of concurrent streams of one connection.
    pub max_streams: u32,
    /// Longest head of a request, in bytes of names and values, with 32 more for each header (RFC 9113, 6.5.2).
    pub max_head: u32,
    /// Bytes of one stream that may arrive before they are read.
    pub stream_window: u32,
    /// Bytes of all streams of a connection that may arrive before they are read.
    pub connection_window: u32,
    /// Largest frame in bytes.
    pub max_frame: u32,
    /// Keep-alive pings, which detect clients that have disappeared; `None` sends none.
    pub ping: Option<Ping>,
    /// Maximum age of a connection, after which the server sends GOAWAY; `None` sets no maximum.
    pub age: Option<ConnectionAge>,
}

/// Settings of the HTTP/2 keep-alive pings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ping {
    /// Time between two pings.
    pub every: Duration,
    /// Longest wait for the acknowledgement; without one, the connection is closed.
    pub answered_within: Duration,
}

/// Maximum age of a connection, and the time for its last requests.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionAge {
    /// Age at which the server sends GOAWAY, so that the client opens a new connection.
    pub limit: Duration,
    /// Time from then on until open requests are cut off; `None` lets them finish.
    pub grace: Option<Duration>,
}

impl Http2Limits {
    /// Limits of ports that serve inference, whose requests carry tensors.
    pub const INFERENCE: Self = Self {
        max_streams: MAX_STREAMS,
        max_head: MAX_HEAD,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        max_frame: MAX_FRAME,
        ping: None,
        age: None,
    };

    /// Limits of ports for operators and other programs, whose requests are small. Windows and frames have HTTP/2's
    /// initial sizes (RFC 9113, 6.5.2 and 6.9.2). Keep-alive pings detect within 20 s that a client's machine has
    /// disappeared.
    #[must_use]
    pub const fn control(max_streams: u32) -> Self {
        const TEN_SECONDS: Duration = Duration::from_secs(10);
        Self {
            max_streams,
            max_head: MAX_CONTROL_HEAD,
            stream_window: (64 << 10) - 1,
            connection_window: (64 << 10) - 1,
            max_frame: 16 << 10,
            ping: Some(Ping { every: TEN_SECONDS, answered_within: TEN_SECONDS }),
            age: None,
        }
    }
}
