//! A request's deadline: the earliest of what its client asks for and what its route allows.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName};
use weir_protocol::grpc::timeout::parse_timeout;

use crate::error::GatewayError;
use crate::headers::{GRPC_TIMEOUT, TIMEOUT};

/// A request's arrival and deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) arrived: Instant,
    /// `None` without a deadline.
    pub(crate) at: Option<Instant>,
}

impl Deadline {
    /// A request without a deadline.
    pub(crate) fn none(arrived: Instant) -> Self {
        Self { arrived, at: None }
    }

    /// The deadline that a request's `grpc-timeout` and `weir-timeout` ask for.
    ///
    /// # Errors
    /// [`GatewayError::Header`].
    pub(crate) fn requested(headers: &HeaderMap, arrived: Instant) -> Result<Self, GatewayError> {
        let grpc = timeout(headers, &GRPC_TIMEOUT, parse_grpc_timeout)?;
        let weir = timeout(headers, &TIMEOUT, parse_weir_timeout)?;
        Ok(Self::none(arrived).within(grpc).within(weir))
    }

    /// Limits the time since the arrival to `most`, if that is given. The earliest limit counts.
    pub(crate) fn within(self, most: Option<Duration>) -> Self {
        let bound = most.map(|most| self.arrived + most);
        Self {
            at: self.at.into_iter().chain(bound).min(),
            ..self
        }
    }

    /// Fails once the deadline has passed; `bytes` of the body have arrived.
    ///
    /// # Errors
    /// [`GatewayError::LateBody`].
    pub(crate) fn enforce(
        self,
        now: impl FnOnce() -> Instant,
        bytes: usize,
    ) -> Result<(), GatewayError> {
        let Some(at) = self.at else {
            return Ok(());
        };
        let now = now();
        if at <= now {
            Err(self.late(now, bytes))
        } else {
            Ok(())
        }
    }

    /// The error of a deadline that passes before the body is complete.
    pub(crate) fn late(self, now: Instant, bytes: usize) -> GatewayError {
        GatewayError::LateBody {
            waited: now.saturating_duration_since(self.arrived),
            bytes,
        }
    }
}

fn timeout(
    headers: &HeaderMap,
    name: &HeaderName,
    parse: impl FnOnce(&str) -> Result<Duration, GatewayError>,
) -> Result<Option<Duration>, GatewayError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    // A value that is no text parses as no timeout either.
    parse(value.to_str().unwrap_or("?")).map(Some)
}

fn parse_grpc_timeout(text: &str) -> Result<Duration, GatewayError> {
    parse_timeout(text).map_err(|_| GatewayError::Header {
        name: "grpc-timeout",
        value: text.to_owned(),
        expected: "up to eight digits and a unit",
    })
}

fn parse_weir_timeout(text: &str) -> Result<Duration, GatewayError> {
    let number = text.parse::<u32>().ok();
    let timeout = number.map(|ms| Duration::from_millis(ms.into()));
    timeout.ok_or_else(|| GatewayError::Header {
        name: "weir-timeout",
        value: text.to_owned(),
        expected: "a number of milliseconds",
    })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(none.enforce(|| panic!("the clock was read"), 0), Ok(()));
        let deadline = none.within(Some(3 * second)).within(None);
        let deadline = deadline.within(Some(2 * second)).within(Some(4 * second));
        assert_eq!(deadline.at, Some(arrived + 2 * second));
        assert_eq!(deadline.enforce(|| arrived + second, 7), Ok(()));
        let late = deadline.enforce(|| arrived + 2 * second, 7).unwrap_err();
        let message =
            "deadline exceeded: waited 2.000 s for the request's body, of which 7 bytes came";
        assert_eq!(late.to_string(), message);
    }
}
