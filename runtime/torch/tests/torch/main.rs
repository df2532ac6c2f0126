//! The libtorch backend on real TorchScript files (`tests/models/`), through its public face only.

mod fixture;

mod inference;
mod laws;
mod refusals;
mod results;
mod strings;
