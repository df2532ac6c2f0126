//! Sending a request to a replica, or to the gateway that has the queue, and relaying the answer.

mod mirror;
mod relay;
mod request;
mod retry;
pub(crate) mod trusted_headers;

pub(crate) use relay::{End, Relay, learn};
pub(crate) use request::ProxyRequest;
