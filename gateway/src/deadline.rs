//! How long a request may take, as its sender says it.

use std::time::Duration;

use crate::error::GatewayError;

/// When a request has to be done. All given, the earliest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// `grpc-timeout`.
    pub(crate) grpc: Option<Duration>,
    /// `weir-timeout`.
    pub(crate) weir: Option<Duration>,
    /// What the service allows.
    pub(crate) route: Option<Duration>,
}

impl Waiting {
    /// The earliest; `None` where nobody is in a hurry.
    pub(crate) fn earliest(self) -> Option<Duration> {
        let all = [self.grpc, self.weir, self.route];
        all.into_iter().flatten().min()
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
    fn the_earliest_counts() {
        let waiting = Waiting {
            grpc: Some(Duration::from_secs(3)),
            weir: None,
            route: Some(Duration::from_secs(2)),
        };
        assert_eq!(waiting.earliest(), waiting.route);
        assert_eq!(Waiting::default().earliest(), None);
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
