//! From a file to a model that can serve: examination in a child process, trial runs, warm-up.

mod complaints;
pub(crate) mod examine;
pub(crate) mod file;
pub(crate) mod infer;
pub(crate) mod inspect;
mod optimize;
pub(crate) mod plan;
mod remark;
pub(crate) mod sandbox;
mod stamp;
mod unguarded;
mod warm_up;
pub(crate) mod weights;
