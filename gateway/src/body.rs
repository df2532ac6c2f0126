//! Request bodies, buffered under a byte budget so that they can be sent again.

mod buffered;
mod downstream;
mod held;

pub(crate) use buffered::{BufferLimits, BufferMode, BufferedBody, discard, linger};
pub(crate) use downstream::DownstreamBody;
pub(crate) use held::held;
