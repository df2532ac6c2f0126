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

mod answer;
mod client;
mod framing;
mod key;
mod lease;
mod manifest;
mod receive;
mod send;

pub use answer::{Answer, ENTRIES, LEASE, LEASE_TIME, POLL_TIME, RENEWAL};
pub use client::NodeCache;
pub(crate) use client::Provided;
pub use framing::{ChunkReader, MAX_MANIFEST, chunks, copy_file, head, read_manifest};
pub use key::EntryKey;
pub use manifest::{CachedFile, EntryManifest};
