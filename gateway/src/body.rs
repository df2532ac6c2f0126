//! Request and response bodies. Requests are buffered under a byte budget, so that they can be sent again.

mod buffered;
mod chunk_reader;
mod downstream;
mod flush_first;
mod metered;
mod usage;

pub(crate) use buffered::{BufferLimits, BufferMode, BufferNeed, BufferedBody};
pub(crate) use chunk_reader::ChunkReader;
pub(crate) use downstream::DownstreamBody;
pub(crate) use flush_first::FlushFirst;
