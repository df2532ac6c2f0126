//! Request bodies: timeouts for slow uploads, detection of incomplete bodies, and bodies that are not needed.

pub(crate) mod charged;
pub(crate) mod end;
pub(crate) mod message_framing;
pub(crate) mod timed;
pub(crate) mod unread;
