//! The model server without a model library: repository, engine, V2 server over HTTP and gRPC, and
//! the echo backend. A [`Backend`](backend::Backend) brings the models to life; `weir-runtime-torch`
//! is the real one.

pub mod app;
pub mod args;
pub mod backend;
pub mod batch;
pub mod config;
pub mod echo;
pub mod engine;
pub mod error;
pub mod grpc;
pub mod http;
mod in_use;
pub mod intake;
pub mod interface;
pub mod job;
pub mod launch;
pub mod metrics;
pub mod padding;
pub mod repository;
pub mod request;
mod request_body;
pub mod server;
mod serving_headers;
pub mod settings;
pub mod shared_memory;
pub mod statistics;
