//! Bodies that arrive: their pace and their end.

pub(crate) mod end;
pub(crate) mod message_framing;
pub(crate) mod timed;
