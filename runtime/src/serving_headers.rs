//! Headers about how a request was served; the same text in HTTP headers and gRPC metadata.

use std::fmt::Write;

use crate::engine::Cost;

/// The header of a refusal before any work on the request: `1` where another replica may be tried, `0` where
/// the request has no time for that.
pub(crate) const REFUSED: &str = "weir-refused";

/// `queue;dur=…, compute;dur=…` in milliseconds, to the microsecond.
#[must_use]
pub(crate) fn server_timing(cost: &Cost) -> String {
    let (queue, compute) = (cost.queue.as_micros(), cost.compute().as_micros());
    let mut text = String::with_capacity(48);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "queue;dur={}.{:03}, compute;dur={}.{:03}",
        queue / 1000,
        queue % 1000,
        compute / 1000,
        compute % 1000,
    );
    text
}

/// `size=…;us=…`: rows of the batch and how long it took.
#[must_use]
pub(crate) fn batch(cost: &Cost) -> String {
    format!("size={};us={}", cost.batch_rows, cost.compute().as_micros())
}
