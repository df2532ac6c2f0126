//! One run of a model: inputs are bound, the module runs, outputs are named.

pub(crate) mod binding;
pub(crate) mod cuda_streams;
pub(crate) mod graph_trial;
pub(crate) mod graphs;
pub(crate) mod instance;
pub(crate) mod outputs;
mod positional_names;
pub(crate) mod runner;
pub(crate) mod stream_pairs;
