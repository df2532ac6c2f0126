//! How long a request may take, as its sender says it.

use std::time::{Duration, Instant};

use crate::error::GatewayError;

/// When a request came, and when it has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) arrived: Instant,
    /// None where nobody is in a hurry.
    pub(crate) at: Option<Instant>,
}

impl Deadline {
    /// Whenever it may be.
    pub(crate) fn none(arrived: Instant) -> Self {
        Self { arrived, at: None }
    }

    /// So long after it came, if that is a bound. Of several the earliest counts.
    pub(crate) fn within(self, most: Option<Duration>) -> Self {
        let bound = most.map(|most| self.arrived + most);
        Self {
            at: self.at.into_iter().chain(bound).min(),
            ..self
        }
    }

    /// Whether there is any time left for a request of whose body so many bytes are here.
    ///
    /// # Errors
    /// [`GatewayError::LateBody`].
    pub(crate) fn check(
        self,
        now: impl FnOnce() -> Instant,
        bytes: usize,
    ) -> Result<(), GatewayError> {
        let Some(at) = self.at else {
            return Ok(());
        };
        let now = now();
        match at <= now {
            true => Err(self.late(now, bytes)),
            false => Ok(()),
        }
    }

    /// What is told when it passes while the body comes.
    pub(crate) fn late(self, now: Instant, bytes: usize) -> GatewayError {
        GatewayError::LateBody {
            waited: now.saturating_duration_since(self.arrived),
            bytes,
        }
    }
}

/// Reads `grpc-timeout`: up to eight digits and a unit of `HMSmun`.
///
/// # Errors
/// [`GatewayError::Header`].
pub(crate) fn parse_grpc_timeout(text: &str) -> Result<Duration, GatewayError> {
    let read = || {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let is_number =
            (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| is_number)?;
        match unit {
            "H" => Some(Duration::from_secs(number * 3600)),
            "M" => Some(Duration::from_secs(number * 60)),
            "S" => Some(Duration::from_secs(number)),
            "m" => Some(Duration::from_millis(number)),
            "u" => Some(Duration::from_micros(number)),
            "n" => Some(Duration::from_nanos(number)),
            _ => None,
        }
    };
    read().ok_or_else(|| GatewayError::Header {
        name: "grpc-timeout",
        value: text.to_owned(),
        expected: "up to eight digits and a unit",
    })
}

/// Reads `weir-timeout`: whole milliseconds.
///
/// # Errors
/// [`GatewayError::Header`].
pub(crate) fn parse_weir_timeout(text: &str) -> Result<Duration, GatewayError> {
    let number = text.parse::<u32>().ok();
    let timeout = number.map(|ms| Duration::from_millis(ms.into()));
    timeout.ok_or_else(|| GatewayError::Header {
        name: "weir-timeout",
        value: text.to_owned(),
        expected: "a number of milliseconds",
    })
}

/// The same as `grpc-timeout` has to spell it: the finest unit that eight digits hold, rounded down.
pub(crate) fn grpc_timeout(left: Duration) -> String {
    const MOST: u128 = 99_999_999;
    match (left.as_micros(), left.as_millis()) {
        (us, _) if us <= MOST => format!("{us}u"),
        (_, ms) if ms <= MOST => format!("{ms}m"),
        _ => format!("{}S", u128::from(left.as_secs()).min(MOST)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timeouts_are_read_as_specified() {
        assert_eq!(parse_grpc_timeout("250m"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_grpc_timeout("1H"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse_weir_timeout("1500"), Ok(Duration::from_millis(1500)));
        for bad in ["", "m", "1", "1x", "123456789m", "-1m", "1é"] {
            assert!(parse_grpc_timeout(bad).is_err(), "{bad:?}");
        }
        assert!(parse_weir_timeout("1.5").is_err());
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "times are compared; tests need a first one"
    )]
    fn the_earliest_bound_counts() {
        let (arrived, second) = (Instant::now(), Duration::from_secs(1));
        let none = Deadline::none(arrived);
        assert_eq!(none.within(None), none);
        assert_eq!(none.check(|| panic!("nobody is in a hurry"), 0), Ok(()));
        let deadline = none.within(Some(3 * second)).within(None);
        let deadline = deadline.within(Some(2 * second)).within(Some(4 * second));
        assert_eq!(deadline.at, Some(arrived + 2 * second));
        assert_eq!(deadline.check(|| arrived + second, 7), Ok(()));
        let late = deadline.check(|| arrived + 2 * second, 7).unwrap_err();
        let told =
            "deadline exceeded: waited 2.000 s for the request's body, of which 7 bytes came";
        assert_eq!(late.to_string(), told);
    }

    proptest! {
        #[test]
        fn what_is_left_is_never_written_longer(us in 0_u64..10_000_000_000_000) {
            let left = Duration::from_micros(us);
            let read = parse_grpc_timeout(&grpc_timeout(left)).unwrap();
            prop_assert!(read <= left);
            prop_assert!(left - read < Duration::from_secs(1));
        }
    }
}
