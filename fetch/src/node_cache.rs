//! The cache of models that the pods of one node share: its client, and the form of its requests.
//!
//! ```text
//!   list the source ──► key of these versions ──► ask ─┬─ files ──► verify ──► TARGET
//!                                                      ├─ lease ──► fetch from the source ──► TARGET ──► store
//!                                                      └─ wait ───► ask again
//! ```
//!
//! A fetch lists the source with its own credentials before it asks the cache, and the key depends on the versions that
//! the source named. The cache never makes a fetch fail: without it, the files come from the source.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/entries/KEY?bytes=SIZE` | 200 and the files, or 202 and an [`Answer`] |
//! | `PUT /v1/entries/KEY` with a lease | 204: the files of the body are stored |
//! | `POST /v1/entries/KEY/lease` | 204: the lease lasts another [`LEASE_TIME`] |
//! | `DELETE /v1/entries/KEY/lease` | 204: the lease has ended |
//! | `DELETE /v1/entries/KEY` | 204: the entry was damaged, and is removed |
//!
//! Every request has the header `Authorization: Bearer TOKEN`. A refusal has another status, and its reason as text.

mod client;
mod framing;
mod key;
mod lease;
mod manifest;
mod receive;
mod send;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use client::NodeCache;
pub(crate) use client::Provided;
pub use framing::{ChunkReader, MAX_MANIFEST, chunks, copy_file, head, read_manifest};
pub use key::EntryKey;
pub use manifest::{CachedFile, EntryManifest};

/// Path of the entries. The key of an entry follows.
pub const ENTRIES: &str = "/v1/entries/";

/// Header with the identity of a lease.
pub const LEASE: &str = "weir-lease";

/// Time after which a lease that is not renewed passes to the next client: three missed renewals.
pub const LEASE_TIME: Duration = Duration::from_secs(20);

/// Time between two renewals of a lease.
pub const RENEWAL: Duration = Duration::from_secs(5);

/// Longest time for which a cache lets a client wait before it answers [`Answer::Wait`].
pub const POLL_TIME: Duration = Duration::from_secs(15);

/// Answer about an entry that is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The client fetches the files and stores them. The text identifies the lease.
    Fetch(String),
    /// Another client fetches the files; this client asks again.
    Wait,
}
