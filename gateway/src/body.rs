//! Request bodies, buffered under a byte budget so that they can be sent again.

mod buffered;
mod downstream;

pub(crate) use buffered::{BufferLimits, BufferMode, BufferedBody, discard, linger};
pub(crate) use downstream::DownstreamBody;
