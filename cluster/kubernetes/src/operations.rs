//! The traits of `weir-cluster` over an API server. Each module writes or reads objects of one kind.

mod apply;
mod clock;
mod downloads;
mod failure_reports;
mod lease;
mod model_account;
mod name_claim;
mod namespace;
mod owner;
mod revisions;
mod scale;
pub(crate) mod stored_history;
