//! Services declared as objects on an API server.
//!
//! ```text
//!   InferenceServices ─┐                          ┌─► status
//!   ServingRuntimes ───┼─ watch ─► Declaration ─► controller ─► Events
//!   ClusterServing…  ──┘                          └─► ControllerRevisions: history
//! ```
//!
//! An object that cannot be read does not affect the others: its service keeps its last valid state, and the status
//! says why.

mod clock;
mod events;
mod gateway_certificates;
mod history;
mod leftovers;
mod object;
mod objects;
mod orphans;
mod replica_certificates;
mod runtime;
mod source;
mod statuses;
mod watching;
mod webhook;

pub use gateway_certificates::{gateway_certificates, keep_gateway_certificates};
pub use replica_certificates::{AuthorityEnd, ReplicaCertificates};
pub use source::KubernetesSource;
pub use webhook::{StorageUri, Webhook, WebhookMetrics, storage_errors, storage_uris, webhook_certificates};
