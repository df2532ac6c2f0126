//! Limits of clients, as written in an access file, and the decision about one more request.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::division::{part_of_count, part_of_interval};
use crate::pattern;
use crate::rule::is_service_pattern;
use crate::service_id::ServiceId;

/// Most limits of all access files: each request of a client may be compared with all of them.
pub(crate) const MAX_LIMITS: usize = 256;

/// Limits of clients. Each client that matches has them for itself, in all gateways together; with `services`, for each of
/// these services by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientLimits {
    /// Names of clients. A final `*` stands for any text. The first limits that match a client are its own.
    pub clients: Vec<String>,
    /// Services as `NAMESPACE/NAME`, each with an optional final `*`, or `*` for all. Each of them counts by itself; without
    /// the field all services count together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Requests per minute; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Requests that may arrive at once after a pause; the default is a sixth of a minute's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<NonZeroU32>,
    /// Requests in flight at once, from their arrival to the end of their responses; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Part of the replicas and of a full queue compared with other clients; the default is 1. It
    /// is for all services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<NonZeroU16>,
}

/// A limit of requests per time, by the generic cell rate algorithm: a token bucket whose whole state is the time at which
/// it is full again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    interval: Duration,
    burst: u32,
}

impl ClientLimits {
    /// Returns true for limits of this client.
    pub(crate) fn names(&self, client: &str) -> bool {
        self.clients.iter().any(|pattern| pattern::matches(pattern, client))
    }

    /// Returns true if the limits name clients, by valid patterns.
    pub(crate) fn has_valid_clients(&self) -> bool {
        !self.clients.is_empty() && self.clients.iter().all(|name| pattern::is_valid(name))
    }

    /// Returns true if each service counts by itself.
    pub(crate) fn is_per_service(&self) -> bool {
        !self.services.is_empty()
    }

    /// Returns true if the limits count the requests to this service by themselves.
    pub(crate) fn covers(&self, service: ServiceId<'_>) -> bool {
        self.services.iter().any(|pattern| service.matches(pattern))
    }

    /// Returns the position of the first service that is no valid pattern.
    pub(crate) fn invalid_service(&self) -> Option<usize> {
        self.services.iter().position(|pattern| !is_service_pattern(pattern))
    }

    /// Returns the limit of requests per time; `None` without one.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let per_minute = self.requests_per_minute?.get();
        let burst = self.burst.map_or((per_minute / 6).max(1), NonZeroU32::get);
        Some(Rate { interval: Duration::from_secs(60) / per_minute, burst })
    }
}

impl Rate {
    /// Returns one gateway's part of a rate that is for this number of gateways together.
    #[must_use]
    pub fn divided(self, gateways: NonZeroU32) -> Self {
        let burst = NonZeroU32::new(self.burst).map_or(self.burst, |burst| part_of_count(burst, gateways).get());
        Self { interval: part_of_interval(self.interval, gateways), burst }
    }

    /// Decides about a request at `now`. `full_at` is the time at which the bucket is full; `None` for a full one. Returns
    /// the new time.
    ///
    /// # Errors
    /// The time until a request would be accepted, if the bucket is empty.
    pub fn take(self, full_at: Option<Instant>, now: Instant) -> Result<Instant, Duration> {
        let full_at = full_at.map_or(now, |at| at.max(now));
        let (missing, room) = (full_at.saturating_duration_since(now), self.interval.saturating_mul(self.burst - 1));
        if missing > room { Err(missing - room) } else { Ok(full_at + self.interval) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a rate compares times; tests need a first one")]
    fn start() -> Instant {
        Instant::now()
    }

    fn limits(per_minute: u32, burst: Option<u32>) -> ClientLimits {
        let requests_per_minute = NonZeroU32::new(per_minute);
        ClientLimits { requests_per_minute, burst: burst.and_then(NonZeroU32::new), ..ClientLimits::default() }
    }

    #[test]
    fn a_burst_is_accepted_and_then_one_request_per_interval() {
        let (now, rate) = (start(), limits(60, Some(3)).rate().unwrap());
        let mut full_at = None;
        for _ in 0..3 {
            full_at = Some(rate.take(full_at, now).unwrap());
        }
        assert_eq!(rate.take(full_at, now), Err(Duration::from_secs(1)));
        let later = now + Duration::from_secs(1);
        full_at = Some(rate.take(full_at, later).unwrap());
        assert_eq!(rate.take(full_at, later), Err(Duration::from_secs(1)));
        assert_eq!((limits(600, None).rate().unwrap().burst, limits(1, None).rate().unwrap().burst), (100, 1));
        assert_eq!(ClientLimits::default().rate(), None);
    }

    #[test]
    fn gateways_divide_a_rate() {
        let (now, rate) = (start(), limits(60, Some(5)).rate().unwrap());
        let part = rate.divided(NonZeroU32::new(2).unwrap());
        assert_eq!(rate.divided(NonZeroU32::MIN), rate);
        let mut full_at = None;
        for _ in 0..3 {
            full_at = Some(part.take(full_at, now).unwrap());
        }
        assert_eq!(part.take(full_at, now), Err(Duration::from_secs(2)));
    }

    proptest! {
        #[test]
        fn no_more_is_accepted_than_the_burst_and_the_rate(
            pauses in proptest::collection::vec(0_u64..3000, 1..200),
            per_minute in 1_u32..600,
            burst in 1_u32..20,
        ) {
            let (begin, rate) = (start(), limits(per_minute, Some(burst)).rate().unwrap());
            let (mut now, mut full_at, mut accepted) = (begin, None, 0_u32);
            for pause in pauses {
                now += Duration::from_millis(pause);
                match rate.take(full_at, now) {
                    Ok(at) => (full_at, accepted) = (Some(at), accepted + 1),
                    Err(wait) => prop_assert!(rate.take(full_at, now + wait).is_ok()),
                }
                let most = f64::from(burst) + (now - begin).as_secs_f64() * f64::from(per_minute) / 60.0;
                prop_assert!(f64::from(accepted) <= most + 1e-6);
            }
        }
    }
}
