//! The platform's processes on Kubernetes: `weir gateway`, `weir controller`, `weir autoscaler`, `weir model-cache`.
//!
//! ```text
//!   bind the ports ─► admin port, not ready ─► watch the API server ─► ready ─► SIGTERM: drain
//! ```

mod autoscaler;
mod connect;
mod controller;
mod gateway;
mod model_cache;
mod process;

pub(crate) use autoscaler::run as autoscaler;
pub(crate) use controller::run as controller;
pub(crate) use gateway::run as gateway;
pub(crate) use model_cache::run as model_cache;
