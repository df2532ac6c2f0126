//! Requests at a replica that batches continuously: each gets a token at every step, and a step takes longer the more
//! requests share it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Service;

/// Number of parts into which a mean length is divided; lengths are counted in these parts.
const PARTS: f64 = 1e9;

/// Requests at one replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    /// Time until which `done` is calculated.
    at: Duration,
    /// Length served so far of a request that is here since the engine's start, in parts of a mean length.
    done: f64,
    /// Changes of the requests. An event with another version is out of date.
    version: u64,
    /// Start of each request, by the value of `done` at which it ends, and by its number.
    running: BTreeMap<(u64, u64), Duration>,
    begun: u64,
}

impl Engine {
    /// Adds a request of this length, relative to the mean.
    pub(super) fn begin(&mut self, service: Service, length: f64, now: Duration) {
        self.elapse(service, now);
        self.begun += 1;
        let end = self.done + (length * PARTS).max(1.0);
        self.running.insert((end as u64, self.begun), now);
    }

    /// Removes the next request that has ended, and returns its start.
    pub(super) fn end_one(&mut self, service: Service, now: Duration) -> Option<Duration> {
        self.elapse(service, now);
        let next = self.running.first_entry()?;
        // The time of an event is rounded to nanoseconds, so `done` may be a few parts short.
        let has_ended = next.key().0 as f64 <= self.done + 16.0;
        has_ended.then(|| next.remove())
    }

    /// Returns the time until the next request ends, and the version of the event; `None` without requests.
    pub(super) fn next_end(&mut self, service: Service) -> Option<(Duration, u64)> {
        let ((end, _), _) = self.running.first_key_value()?;
        let left = (*end as f64 - self.done).max(0.0) / PARTS;
        let time = service.time(self.running.len() as u32).mul_f64(left);
        self.version += 1;
        Some((time + Duration::from_nanos(1), self.version))
    }

    pub(super) fn is_current(&self, version: u64) -> bool {
        self.version == version
    }

    fn elapse(&mut self, service: Service, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        if !self.running.is_empty() {
            self.done += PARTS * passed / service.time(self.running.len() as u32).as_secs_f64().max(1e-9);
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_longer_while_another_one_shares_the_steps() {
        let second = Duration::from_secs(1);
        let service = Service::Continuous { fixed: second, each: second, most: 8 };
        let mut engine = Engine::default();
        engine.begin(service, 1.0, Duration::ZERO);
        let (alone, stale) = engine.next_end(service).unwrap_or_default();
        assert_eq!(alone.as_millis(), 2000);
        // Half of the first request is done. Together, a mean length takes three seconds.
        engine.begin(service, 1.0, second);
        let (shared, version) = engine.next_end(service).unwrap_or_default();
        assert!(!engine.is_current(stale) && engine.is_current(version));
        assert_eq!(shared.as_millis(), 1500);
        assert_eq!(engine.end_one(service, second + shared), Some(Duration::ZERO));
        assert_eq!(engine.end_one(service, second + shared), None);
        let (rest, _) = engine.next_end(service).unwrap_or_default();
        assert_eq!(rest.as_millis(), 1000);
    }
}
