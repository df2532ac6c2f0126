//! Written forms of what the API server has no field for: JSON in annotations. Versions mix, so unknown fields are
//! skipped.

use std::time::Duration;

mod revision;
mod route;
mod scaling;
#[cfg(test)]
mod tests;

pub(crate) use revision::WrittenRevision;
pub(crate) use route::WrittenRoute;

/// The longest time that is read, a year: a longer one bounds nothing, and would overflow clocks. An editor of the namespace
/// can write any.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A time as it is read.
fn read_time(written: Duration) -> Duration {
    written.min(LONGEST)
}
