//! The cache of models that the pods of one Kubernetes node share: a server over a directory of the node.
//!
//! ```text
//!   request ──► token ──TokenReview──► namespace ──► index ─┬─ entry ──► stream of its files
//!               (accounts)                  (pure decisions) ├─ lease ──► the client fetches, and stores
//!                                                            └─ wait
//!   directory:  entries/NAMESPACE/KEY-LEASE/{manifest.json, 0, 1, …}    staged/…
//! ```
//!
//! Entries belong to a namespace, which the API server derives from the client's token. No client can read, replace or
//! remove an entry of another namespace, whatever key it asks for. Names of files are only data in a manifest: on disk, files
//! have numbers.

mod accounts;
mod agent;
mod clock;
mod disk;
mod error;
mod folder;
mod index;
mod metrics;
mod root;
mod server;
mod stream;

pub use accounts::{AUDIENCE, Namespace, ReviewError, TokenReviewer};
pub use agent::Agent;
pub use error::CacheError;
pub use index::CacheLimits;
pub use metrics::CacheMetrics;
pub use server::serve;
