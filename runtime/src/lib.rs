//! The model server without a model library: repository, engine, V2 protocol over HTTP and gRPC, and the echo backend.
//! A [`Backend`](backend::Backend) loads the models; `weir-runtime-torch` is the one for libtorch.

pub mod app;
pub mod args;
pub mod backend;
mod batch;
mod charged_bytes;
mod clock;
mod compression;
mod config;
mod echo;
mod engine;
mod error;
mod grpc;
mod http;
mod in_use;
mod inspection;
mod interface;
mod job;
mod launch;
mod metrics;
pub mod model_file;
mod off_reactor;
mod padding;
mod panic_text;
mod repository;
mod request;
mod request_body;
mod restriction;
mod server;
mod serving_headers;
mod settings;
mod shared_memory;
mod small_file;
mod statistics;

pub use batch::check_output;
pub use inspection::InspectedTensor;
pub use launch::sample_batch;
pub use repository::check_models;

/// Internals for the benchmarks and for the tests that generate documentation; not a stable interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::batch::OutputSlice;
    pub use crate::engine::ModelMemory;
    pub use crate::error::ServeError;
    pub use crate::interface::Interface;
    pub use crate::job::Job;
    pub use crate::metrics::{GpuSample, ModelSample, Options, Pool, Requests, Sources, register};
    pub use crate::padding::Padding;
    pub use crate::request::ReadShared;
    pub use crate::statistics::{Reason, Refusal, Statistics};
}
