//! The context that an instance, its runner and its threads share.

use std::sync::Arc;

use weir_batcher::Batcher;

use super::JobResult;
use crate::backend::Device;
use crate::interface::Interface;
use crate::job::Job;
use crate::statistics::Statistics;

/// An instance's part of its engine: device, model, statistics and queue.
pub(super) struct InstanceContext {
    pub(super) index: usize,
    pub(super) device: Device,
    pub(super) interface: Arc<Interface>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) batcher: Batcher<Job, JobResult>,
}
