//! The traits of weir-cluster over a Kubernetes API server.
//!
//! | what | is |
//! |---|---|
//! | a revision | a Deployment `{name}-predictor-{NNNNN}` and a headless Service of that name, which keeps what a `Workload` has beside its pods |
//! | what must outlive the controller | a ControllerRevision of that name, with the pod that the Deployment follows, and `{name}-rollout` with the state of a rollout |
//! | its replicas | the Deployment's pods; to a gateway, the endpoints of the headless Service |
//! | a service's route | an annotation of the Service `{name}`, an alias of the gateway's |
//! | the generation of routes | the `resourceVersion` of that Service: it grows over restarts of all parts |
//! | an autoscaler of others | a HorizontalPodAutoscaler whose target is the service or a revision's Deployment |
//! | the gateways | the ready endpoints of the Service `weir-gateway` |
//! | a lease | a Lease |
//!
//! `apply` writes as field manager `weir-controller` and never holds a Deployment's `replicas`, which belong to
//! `weir-autoscaler` from the first moment on.

mod api;
mod apply;
mod client;
mod drift;
mod endpoints;
mod entry;
mod error;
mod gateways;
mod generation;
mod handle;
mod held;
mod kept_revisions;
mod known_services;
mod lease;
mod name_claim;
mod namespace;
mod objects;
mod observed;
mod options;
mod other_autoscalers;
mod owner;
mod placements;
mod replica;
mod retried_watch;
mod revisions;
mod scale;
mod seen;
mod stored;
mod stored_history;
mod watch_scope;
mod watching;
mod written;

pub use client::client;
pub use handle::Kubernetes;
pub use known_services::KnownServices;
pub use kube::Client;
pub use objects::{check_storage_uri, revision_of};
pub use options::Options;
pub use retried_watch::{WATCH_SECONDS, retried};
pub use seen::{Edit, Key, Seen};
pub use stored::StoredRevision;
pub use stored_history::StoredHistory;
pub use watch_scope::WatchScope;
