//! Serialized forms of data that Kubernetes has no field for: JSON in annotations. Different versions of Weir read
//! them, so unknown fields are ignored.

use std::time::Duration;

mod failures;
mod revision;
mod route;
mod scaling;
#[cfg(test)]
mod tests;

pub(crate) use failures::WrittenFailures;
pub(crate) use revision::WrittenRevision;
pub(crate) use route::WrittenRoute;

/// Longest duration that is accepted: a year. A longer one limits nothing and could overflow clocks, and everyone who
/// may edit objects of the namespace can write one.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Limits a duration that was read.
fn read_time(written: Duration) -> Duration {
    written.min(LONGEST)
}
