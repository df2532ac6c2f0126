//! Fetches a `storageUri` into a directory.
//!
//! ```text
//!   URI ──parse──► source ──list──► objects ──16 ranged reads──► TARGET.fetching/files ──digest, unpack──► TARGET
//!                                   resumed at the byte                                  bounded, atomic rename
//! ```
//!
//! The target appears completely or not at all. After an interruption, the next attempt resumes the download, in this
//! process or a later one. Concurrent fetches of one target run one after the other, and the second one finds the
//! target complete.

mod access;
mod archive;
mod digest;
mod durable;
mod error;
pub mod eviction;
mod fetch;
mod inventory;
mod limits;
mod mirror;
pub mod node_cache;
mod progress;
mod shown_uri;
mod source;
mod store;
mod transfer;
mod web;

pub use access::credentials::Access;
pub use error::{FetchError, UriQuery};
pub use fetch::{Fetch, fetch, fetch_as};
pub use inventory::{Inventory, inspect};
pub use limits::Limits;
pub use mirror::{Mirror, WantedModels};
pub use progress::attempt::{Attempt, Progress};
pub use progress::report::DownloadReport;
pub use shown_uri::without_secrets;
pub use source::{check_uri, is_remote, is_unsupported, plain_file};
