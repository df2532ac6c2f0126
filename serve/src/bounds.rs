//! Limits on connections, requests and buffered bytes, and the shares of each client.

pub mod byte_budget;
pub mod http2_limits;
pub(crate) mod limits;
pub mod open_files;
pub(crate) mod pace;
pub(crate) mod places;
pub(crate) mod shares;
