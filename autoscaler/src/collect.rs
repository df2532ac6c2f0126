//! Turns reports and snapshots into samples. The current time is always an argument.

mod baselines;
mod gateway_clock;
mod report_cache;
mod starts;

pub(crate) use baselines::Baselines;
pub(crate) use report_cache::ReportCache;
pub(crate) use starts::{StartTimes, StartTracker};
