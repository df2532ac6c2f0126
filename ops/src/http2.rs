//! HTTP/2's limits, the same for every port that serves inference and for connections to replicas.

/// A stream's window in bytes: a common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives without a wait for
/// `WINDOW_UPDATE`.
pub const STREAM_WINDOW: u32 = 1 << 20;

/// A connection's window in bytes: eight full streams.
pub const CONNECTION_WINDOW: u32 = 8 * STREAM_WINDOW;

/// The largest frame in bytes: a sixteenth of the work that frames of the usual 16 KiB make, and what a
/// connection may be made to hold before it is known to be of use.
pub const MAX_FRAME: u32 = 256 << 10;

/// The longest head that a runtime takes, in bytes: the 16 KiB that the HTTP/2 library lets a gateway take, and half as much
/// for what that adds.
pub const MAX_REPLICA_HEAD: u32 = 24 << 10;

/// Streams of one connection at once; a client that wants more opens another connection.
pub const MAX_STREAMS: u32 = 1024;
