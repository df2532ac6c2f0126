//! The path of a request from the port to a replica and back.

mod batching;
pub(crate) mod forward;
mod health;
pub(crate) mod proxy;
