//! Parses and formats the `grpc-timeout` header: one to eight ASCII digits and a unit.

use std::time::Duration;

/// The largest number that eight digits hold.
const MAX_AMOUNT: u128 = 99_999_999;

/// Error of a `grpc-timeout` that does not follow the gRPC specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one to eight digits and a unit (H, M, S, m, u or n)")]
pub struct TimeoutError;

/// Parses the value of a `grpc-timeout` header.
///
/// # Errors
/// [`TimeoutError`] for anything but one to eight ASCII digits and one unit.
pub fn parse_timeout(text: &str) -> Result<Duration, TimeoutError> {
    let (digits, unit) = text.len().checked_sub(1).and_then(|end| text.split_at_checked(end)).ok_or(TimeoutError)?;
    let amount = parse_amount(digits)?;
    match unit {
        "H" => Ok(Duration::from_secs(amount * 3600)),
        "M" => Ok(Duration::from_secs(amount * 60)),
        "S" => Ok(Duration::from_secs(amount)),
        "m" => Ok(Duration::from_millis(amount)),
        "u" => Ok(Duration::from_micros(amount)),
        "n" => Ok(Duration::from_nanos(amount)),
        _ => Err(TimeoutError),
    }
}

/// Formats a duration as the value of a `grpc-timeout` header, in the finest of the units `u`, `m` and `S` in which it
/// has at most eight digits. The value is rounded down, so that no hop extends a deadline.
#[must_use]
pub fn format_timeout(timeout: Duration) -> String {
    match (timeout.as_micros(), timeout.as_millis()) {
        (micros, _) if micros <= MAX_AMOUNT => format!("{micros}u"),
        (_, millis) if millis <= MAX_AMOUNT => format!("{millis}m"),
        _ => format!("{}S", u128::from(timeout.as_secs()).min(MAX_AMOUNT)),
    }
}

/// Parses the digits before the unit. Unlike [`str::parse`], this refuses a sign and a ninth digit.
fn parse_amount(digits: &str) -> Result<u64, TimeoutError> {
    let is_amount = digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let amount = digits.parse().ok().filter(|_| is_amount);
    amount.ok_or(TimeoutError)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_to_eight_digits_and_a_unit_are_parsed() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("150m", Duration::from_millis(150)),
            ("250m", Duration::from_millis(250)),
            ("7u", Duration::from_micros(7)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
            ("00000001S", Duration::from_secs(1)),
            ("0m", Duration::ZERO),
        ] {
            assert_eq!(parse_timeout(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_timeouts_are_refused() {
        for text in
            ["", "m", "S", "1", "1x", "5x", "123456789m", "000000001S", "-1m", "+1m", "1.5S", " 1S", "1é", "5é", "٣S"]
        {
            assert_eq!(parse_timeout(text), Err(TimeoutError), "{text:?}");
        }
    }

    #[test]
    fn the_finest_unit_that_fits_is_written() {
        for (timeout, expected) in [
            (Duration::ZERO, "0u"),
            (Duration::from_nanos(1_999), "1u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_micros(100_000_999), "100000m"),
            (Duration::from_millis(99_999_999), "99999999m"),
            (Duration::from_millis(100_000_999), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(format_timeout(timeout), expected);
        }
    }

    proptest! {
        #[test]
        fn a_written_timeout_is_never_longer(micros in 0_u64..10_000_000_000_000) {
            let timeout = Duration::from_micros(micros);
            let parsed = parse_timeout(&format_timeout(timeout)).unwrap();
            prop_assert!(parsed <= timeout);
            prop_assert!(timeout - parsed < Duration::from_secs(1));
        }
    }
}
