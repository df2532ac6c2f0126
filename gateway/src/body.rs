//! Request bodies, kept under a budget of bytes so that they can be sent again.

mod budget;
mod buffered;

pub(crate) use budget::{Buffers, Grown, Portion};
pub(crate) use buffered::{BufferMode, BufferedBody, Limits, discard};
