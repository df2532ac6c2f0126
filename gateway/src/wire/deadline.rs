//! A request's deadline, the earliest of the client's and the route's timeouts, and the party that is to blame if it
//! passes.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName};
use weir_protocol::grpc::timeout::parse_timeout;
use weir_protocol::{Blame, blame_for_client_deadline};
use weir_serve::header_names;

use crate::error::GatewayError;
use crate::wire::headers::{GRPC_TIMEOUT, HOP, HOP_CLIENT_DEADLINE, TIMEOUT};

static TIMEOUTS: [HeaderName; 2] = [GRPC_TIMEOUT, TIMEOUT];

/// A request's arrival and deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) arrived: Instant,
    /// End of the time allowed for the request; `None` without a deadline.
    pub(crate) at: Option<Instant>,
    /// Party that is to blame if the deadline passes.
    pub(crate) blame: Blame,
}

impl Deadline {
    /// Returns the deadline of a request without any timeout.
    pub(crate) fn none(arrived: Instant) -> Self {
        Self { arrived, at: None, blame: Blame::Server }
    }

    /// Returns the deadline according to a request's `grpc-timeout` and `weir-timeout`.
    ///
    /// # Errors
    /// [`GatewayError::Header`] if a value is invalid.
    pub(crate) fn requested(headers: &HeaderMap, arrived: Instant) -> Result<Self, GatewayError> {
        if !header_names::has_any(headers, &TIMEOUTS) {
            return Ok(Self::none(arrived));
        }
        let grpc = timeout(headers, &GRPC_TIMEOUT, parse_grpc_timeout)?;
        let weir = timeout(headers, &TIMEOUT, parse_weir_timeout)?;
        let requested = Self::none(arrived).within(grpc).within(weir);
        // A timeout from another gateway may be what is left of the service's own timeout, so `weir-hop` marks a short
        // deadline that the client itself has set.
        let hop = headers.get(HOP);
        let is_clients = requested.at.is_some() && hop.is_none_or(|hop| *hop == HOP_CLIENT_DEADLINE);
        let blame = if is_clients { Blame::Caller } else { Blame::Server };
        Ok(Self { blame, ..requested })
    }

    /// Limits the time since the arrival to `most`, a timeout of the service; `None` sets no limit. The earlier of both
    /// deadlines applies.
    pub(crate) fn within(self, most: Option<Duration>) -> Self {
        // A timeout beyond the range of the clock is no limit.
        match most.and_then(|most| self.arrived.checked_add(most)) {
            Some(bound) if self.at.is_none_or(|at| bound <= at) => {
                Self { at: Some(bound), blame: Blame::Server, ..self }
            }
            Some(_) | None => self,
        }
    }

    /// Checks the deadline of a request of which `bytes` have arrived, and settles which party is to blame if it passes
    /// later. If the client set the deadline, the revision is to blame only if enough time is left for its work.
    ///
    /// # Errors
    /// [`GatewayError::LateBody`] or [`GatewayError::NoTime`] if the deadline has passed.
    pub(crate) fn enforce(self, now: impl FnOnce() -> Instant, bytes: usize) -> Result<Self, GatewayError> {
        let Some(at) = self.at else {
            return Ok(self);
        };
        let now = now();
        if at <= now {
            return Err(self.late(now, bytes));
        }
        let blame = match self.blame {
            Blame::Caller => blame_for_client_deadline(at - now),
            Blame::Load | Blame::Server => self.blame,
        };
        Ok(Self { blame, ..self })
    }

    /// Returns the error of a deadline that passes before the body is complete.
    pub(crate) fn late(self, now: Instant, bytes: usize) -> GatewayError {
        if self.at == Some(self.arrived) {
            return GatewayError::NoTime;
        }
        GatewayError::LateBody { waited: now.saturating_duration_since(self.arrived), bytes }
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
    // A value that is not text is as invalid as a text without a timeout.
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
    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn the_earliest_bound_counts() {
        let (arrived, second) = (Instant::now(), Duration::from_secs(1));
        let none = Deadline::none(arrived);
        assert_eq!(none.within(None), none);
        assert_eq!(none.enforce(|| panic!("the clock was read"), 0), Ok(none));
        let longest = Duration::from_secs(i64::MAX as u64);
        assert_eq!(none.within(Some(longest)), none);
        let deadline = none.within(Some(3 * second)).within(None);
        let deadline = deadline.within(Some(2 * second)).within(Some(4 * second));
        assert_eq!(deadline.at, Some(arrived + 2 * second));
        assert_eq!(deadline.enforce(|| arrived + second, 7), Ok(deadline));
        let late = deadline.enforce(|| arrived + 2 * second, 7).unwrap_err();
        let message = "deadline exceeded: waited 2.000 s for the request's body, of which 7 bytes arrived";
        assert_eq!(late.to_string(), message);
        let at_once = none.within(Some(Duration::ZERO));
        let refused = at_once.enforce(|| arrived + second, 7);
        assert_eq!(refused, Err(GatewayError::NoTime));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn a_client_is_to_blame_for_its_own_short_deadline() {
        let arrived = Instant::now();
        let ms = Duration::from_millis;
        let blame = |headers: &[(HeaderName, &'static str)], service: Option<Duration>, body| {
            let headers = headers.iter().cloned();
            let headers = headers.map(|(name, value)| (name, http::HeaderValue::from_static(value)));
            let headers: HeaderMap = headers.collect();
            let deadline = Deadline::requested(&headers, arrived).unwrap();
            let deadline = deadline.within(service).enforce(|| arrived + body, 0);
            deadline.unwrap().blame
        };
        let none = ms(0);
        let (own, long) = ((TIMEOUT, "900"), (TIMEOUT, "5000"));
        assert_eq!(blame(&[], None, none), Blame::Server);
        assert_eq!(blame(std::slice::from_ref(&own), None, none), Blame::Caller);
        assert_eq!(blame(&[(GRPC_TIMEOUT, "1m")], None, none), Blame::Caller);
        assert_eq!(blame(&[long.clone(), (GRPC_TIMEOUT, "1m")], None, none), Blame::Caller);
        assert_eq!(blame(std::slice::from_ref(&long), None, none), Blame::Server);
        // The upload took so long that less than a second is left for the revision.
        assert_eq!(blame(std::slice::from_ref(&long), None, ms(4500)), Blame::Caller);
        // The service's own timeout ends first, or at the same time as the client's.
        assert_eq!(blame(std::slice::from_ref(&own), Some(ms(300)), none), Blame::Server);
        assert_eq!(blame(std::slice::from_ref(&own), Some(ms(900)), none), Blame::Server);
        assert_eq!(blame(std::slice::from_ref(&own), Some(ms(901)), none), Blame::Caller);
        // The request comes from another gateway, whose `weir-hop: 1` means that the server is to blame.
        assert_eq!(blame(&[own.clone(), (HOP, "1")], None, none), Blame::Server);
        assert_eq!(blame(&[own, (HOP, "2")], None, none), Blame::Caller);
    }
}
