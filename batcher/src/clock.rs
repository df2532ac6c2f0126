//! The only place that reads the clock; all decisions take the time as an argument.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the shell around the assembler owns the clock")]
    Instant::now()
}
