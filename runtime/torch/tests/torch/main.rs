//! Tests the libtorch backend on real TorchScript files (`tests/models/`), through its public interface only.

#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

mod fixture;
mod inference;
mod op_libraries;
mod outputs;
mod properties;
mod refusals;
mod results;
mod strings;
mod trials;
mod trusted_values;
