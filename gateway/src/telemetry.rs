//! Data that the gateway publishes about itself: reports, metrics and descriptions.

pub(crate) mod describe;
pub(crate) mod metrics;
pub(crate) mod report;
