//! From reports and snapshots to samples. Time is an argument.

mod births;
mod counts;
mod hearing;

pub(crate) use births::{Births, Starts};
pub(crate) use counts::Counts;
pub(crate) use hearing::Hearing;
