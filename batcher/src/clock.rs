//! The one place that reads the clock; everything that decides has time as an argument.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the shell around the assembler owns the clock")]
    Instant::now()
}
