//! Request bodies: timeouts for slow uploads, and detection of incomplete bodies.

pub(crate) mod charged;
pub(crate) mod end;
pub(crate) mod message_framing;
pub(crate) mod timed;
