//! The traits of weir-cluster over a Kubernetes API server.
//!
//! | concept | on the API server |
//! |---|---|
//! | a revision | a Deployment `{name}-predictor-{NNNNN}` and a headless Service of that name, whose annotation holds the parts of a `Workload` that are not in its pods |
//! | state that outlives the controller | a ControllerRevision of that name, with the pod template of the Deployment, and `{name}-rollout` with the state of a rollout |
//! | the replicas of a revision | the Deployment's pods; for a gateway, the endpoints of the headless Service |
//! | the route of a service | an annotation of the Service `{name}`, an alias of the gateway's Service |
//! | the generation of routes | the `resourceVersion` of that Service, which keeps growing when parts restart |
//! | another autoscaler | a HorizontalPodAutoscaler that targets the InferenceService or a revision's Deployment |
//! | the gateways | the ready endpoints of the Service `weir-gateway` |
//! | a lease | a Lease |
//!
//! `apply` writes as field manager `weir-controller` and never owns a Deployment's `replicas`, which belong to
//! `weir-autoscaler` from the first write on.

mod api;
mod client;
mod entries;
mod entry;
mod error;
mod fetch_options;
mod handle;
mod objects;
mod operations;
mod options;
mod stored;
mod token_review;
mod view;
mod watch;
mod written;

pub use client::client;
pub use entries::{DataKind, DataObject, Entries, SecretEntry, watch_entries};
pub use fetch_options::FetchOptions;
pub use handle::KnownServices;
pub use handle::Kubernetes;
pub use kube::Client;
pub use objects::{check_storage_uri, revision_of};
pub use operations::stored_history::StoredHistory;
pub use options::{CertificateSource, GpuNodes, Options, WatchScope};
pub use stored::StoredRevision;
pub use token_review::{TokenPod, pod_of_token, user_of_token};
pub use watch::retried_watch::{WATCH_SECONDS, WatchPauses, retried};
pub use watch::watch_cache::{Edit, Key, WatchCache};
