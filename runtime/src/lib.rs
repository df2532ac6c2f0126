//! The model server without a model library: repository, engine, V2 server over HTTP and gRPC, and
//! the echo backend. A [`Backend`] brings the models to life; `weir-runtime-torch` is the real one.

pub mod backend;
pub mod echo;
pub mod metrics;
pub mod statistics;
