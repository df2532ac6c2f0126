//! The commands of `weir`.

pub(crate) mod check;
pub(crate) mod fetch;
pub(crate) mod infer;
pub(crate) mod key;
pub(crate) mod kubernetes;
pub(crate) mod logs;
pub(crate) mod simulate;
pub(crate) mod status;
mod status_table;
pub(crate) mod up;
