//! From a `storageUri` to a directory.
//!
//! ```text
//!   http(s)://host/model.zip ──download──► TARGET.fetching/part ──unpack──► TARGET.fetching/content ──rename──► TARGET
//!                              resumes                       bounded                                 atomic
//! ```
//!
//! What stands at the target is whole: whoever sees it may read it. What was downloaded before an
//! interruption is used by the next attempt, in this process or a later one. Two that fetch to one target
//! take turns, and the second finds it done.

mod download;
mod error;
mod fetch;
mod limits;
mod source;
mod unpack;

pub use error::FetchError;
pub use fetch::fetch;
pub use limits::Limits;
pub use source::is_remote;
