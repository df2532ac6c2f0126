//! Fetches a `storageUri` into a directory.
//!
//! ```text
//!   http(s)://host/model.zip ──download──► TARGET.fetching/part ──unpack──► TARGET.fetching/content ──rename──► TARGET
//!                              resumes                       bounded                                 atomic
//! ```
//!
//! The target appears completely or not at all. After an interruption, the next attempt resumes the download, in this
//! process or a later one. Concurrent fetches of one target run one after the other, and the second one finds the
//! target complete.

mod attempt;
mod digest;
mod download;
mod error;
mod fetch;
mod limits;
mod source;
#[expect(dead_code, reason = "the transfer that uses the stores follows")]
mod store;
mod unpack;

pub use attempt::Attempt;
pub use error::FetchError;
pub use fetch::fetch;
pub use limits::Limits;
pub use source::{check_uri, is_remote, plain_file, without_secrets};
