//! HTTP/2 limits, shared by all ports that serve inference and by connections to replicas.

/// Flow-control window of a stream in bytes. A common image tensor (3 × 224 × 224 FP32 is 588 KiB) arrives without
/// waiting for a `WINDOW_UPDATE`.
pub const STREAM_WINDOW: u32 = 1 << 20;

/// Flow-control window of a connection in bytes: eight full streams.
pub const CONNECTION_WINDOW: u32 = 8 * STREAM_WINDOW;

/// Maximum frame size in bytes. Frames of this size cost a sixteenth of the work of the usual 16 KiB frames, and a
/// client can make a connection buffer no more than this before the request is checked.
pub const MAX_FRAME: u32 = 256 << 10;

/// Maximum size in bytes of the request head that a runtime accepts: the 16 KiB that the HTTP/2 library accepts at a
/// gateway, plus half as much for the headers that the gateway adds.
pub const MAX_REPLICA_HEAD: u32 = 24 << 10;

/// Maximum of concurrent streams per connection; a client that wants more opens another connection.
pub const MAX_STREAMS: u32 = 1024;
