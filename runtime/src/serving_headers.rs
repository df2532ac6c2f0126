//! What every answer says of how it was served; the same text in HTTP headers and gRPC metadata.

use std::fmt::Write;
use std::time::Duration;

use crate::engine::Cost;

/// `queue;dur=…, compute;dur=…` in milliseconds, to the microsecond.
#[must_use]
pub(crate) fn server_timing(cost: &Cost) -> String {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let mut text = String::with_capacity(48);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "queue;dur={:.3}, compute;dur={:.3}",
        ms(cost.queue),
        ms(cost.compute())
    );
    text
}

/// `size=…;us=…`: rows of the batch and how long it took.
#[must_use]
pub(crate) fn batch(cost: &Cost) -> String {
    format!("size={};us={}", cost.batch_rows, cost.compute().as_micros())
}
