//! Request bodies, buffered under a byte budget so that they can be sent again.

mod buffered;

pub(crate) use buffered::{BufferLimits, BufferMode, BufferedBody, discard};
