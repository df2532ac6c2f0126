//! The model server without a model library: repository, engine, V2 protocol over HTTP and gRPC, and the echo backend.
//! A [`Backend`](backend::Backend) loads the models; `weir-runtime-torch` is the one for libtorch.

mod api;
pub mod app;
pub mod args;
pub mod backend;
mod clock;
mod echo;
mod engine;
mod error;
mod in_use;
mod incoming;
mod inspection;
mod launch;
mod metrics;
mod model;
pub mod model_file;
mod repository;
mod server;
mod settings;
mod small_file;
mod statistics;
mod tls;

pub use inspection::InspectedTensor;
pub use launch::sample_batch;
pub use model::batch::check_output;
pub use repository::check_models;

/// Internals for the benchmarks and for the tests that generate documentation; not a stable interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::engine::ModelMemory;
    pub use crate::error::ServeError;
    pub use crate::incoming::request::ReadShared;
    pub use crate::metrics::{GpuSample, ModelSample, Options, Pool, Requests, Sources, register};
    pub use crate::model::batch::OutputSlice;
    pub use crate::model::interface::Interface;
    pub use crate::model::job::Job;
    pub use crate::model::padding::Padding;
    pub use crate::statistics::{Reason, Refusal, Statistics};
}
