//! The interface of a model, and the batches and jobs that fit it.

pub(crate) mod batch;
pub(crate) mod config;
pub(crate) mod interface;
pub(crate) mod job;
pub(crate) mod padding;
