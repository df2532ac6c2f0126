//! Which service a request is for, and which of its revisions.

pub(crate) mod local;
mod matcher;
mod path;
pub(crate) mod split;

pub use matcher::Scope;
pub(crate) use matcher::{RouteMatch, RouteMatcher};
pub(crate) use path::model_of_path;

use std::sync::Arc;

use weir_cluster::Route;

use crate::mirror::MirrorTarget;
use crate::queue::RevisionQueue;

/// The service and revision that a request was routed to.
pub(crate) struct Target {
    pub(crate) queue: Arc<RevisionQueue>,
    pub(crate) route: Arc<Route>,
    /// Bytes of the path that the replica does not see.
    pub(crate) prefix: usize,
    /// The revision that gets a copy, if one does.
    pub(crate) mirror_target: Option<MirrorTarget>,
}
