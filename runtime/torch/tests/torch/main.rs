//! The libtorch backend on real TorchScript files (`tests/models/`), through its public face only.

#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

mod fixture;

mod inference;
mod laws;
mod refusals;
mod results;
mod strings;
