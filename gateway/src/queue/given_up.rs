//! Requests that clients give up before they are answered.
//!
//! A replica has read such a request, or will read it, and works on it until it notices the end; many servers never
//! do. If its credit were given back at once, a client could send any number of requests to a replica by giving up each
//! of them. So the credit is kept for as long as the request would usually take. The calls of a client that gives up
//! many of them also go over a connection of their own, because a replica reads each connection in order: behind the
//! calls that were given up, those of other clients would wait for seconds. The credits of such calls are kept for
//! longer than most requests take, so that the gateway sends the replica no more calls than it can read.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_access::ClientId;

use crate::rates::make_room;
use crate::upstream::Channel;

/// Longest time for which the credit of a request is kept after its client has gone. Servers that notice the end of a
/// long request do so within this time.
const LONGEST: Duration = Duration::from_millis(100);

/// Number of answers over which the mean extends.
const ANSWERS: u32 = 8;

/// Mean time in which replicas answer the requests of one revision; `None` before the first answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerTime(Option<Duration>);

impl AnswerTime {
    /// Adds the time of an answer.
    pub(super) fn record(&mut self, took: Duration) {
        let mean = self.0.map_or(took, |mean| mean - mean / ANSWERS + took / ANSWERS);
        self.0 = Some(mean);
    }

    /// Returns the time at which a replica is expected to have finished a request that it got at `since` and that its
    /// client gave up at `now`; `None` if the replica is expected to be free already.
    pub(super) fn expected_end(self, since: Instant, now: Instant) -> Option<Instant> {
        let left = self.0?.checked_sub(now.saturating_duration_since(since))?;
        (!left.is_zero()).then(|| now + left.min(LONGEST))
    }
}

/// Number of requests that a client may give up at once before its calls go over the separate connection.
const BURST: u32 = 100;

/// Time after which a client may give up one more request.
const INTERVAL: Duration = Duration::from_millis(10);

/// Time for which the credit of a given-up call over the separate connection is kept. Answers do not show how late the
/// replica reads that connection, because few of its calls are answered.
const KEPT_OF_MANY: Duration = Duration::from_secs(1);

/// Longest time after the last request that a client gave up for which its calls go over the separate connection.
const MEMORY: Duration = Duration::from_secs(10);

/// Maximum number of clients that are remembered.
const MAX_CLIENTS: usize = 1024;

/// Clients that have given up requests, each with the time at which that is forgotten.
#[derive(Debug, Default)]
pub(super) struct GivenUp(HashMap<ClientId, Instant>);

impl GivenUp {
    /// Counts a request that a client gave up. Returns the shortest time for which its credit is kept.
    pub(super) fn record(&mut self, client: ClientId, now: Instant) -> Duration {
        if self.0.len() >= MAX_CLIENTS && !self.0.contains_key(&client) {
            make_room(&mut self.0, now);
        }
        let forgotten = self.0.entry(client).or_insert(now);
        *forgotten = ((*forgotten).max(now) + INTERVAL).min(now + MEMORY);
        match self.channel(client, now) {
            Channel::Common => Duration::ZERO,
            Channel::Separate => KEPT_OF_MANY,
        }
    }

    /// Returns the channel for the next call of a client.
    pub(super) fn channel(&self, client: ClientId, now: Instant) -> Channel {
        let is_many = self.0.get(&client).is_some_and(|forgotten| *forgotten > now + BURST * INTERVAL);
        if is_many { Channel::Separate } else { Channel::Common }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::now;

    #[test]
    fn a_client_that_gives_up_many_requests_gets_the_separate_channel_until_it_stops() {
        let (mut given_up, now) = (GivenUp::default(), now());
        let (bad, good) = (ClientId::of("bad"), ClientId::of("good"));
        assert!((0..BURST).all(|_| given_up.record(bad, now).is_zero()));
        assert_eq!(given_up.channel(bad, now), Channel::Common);
        assert!((0..1000).all(|_| given_up.record(bad, now) == KEPT_OF_MANY));
        assert_eq!(given_up.channel(bad, now), Channel::Separate);
        assert_eq!(given_up.channel(good, now), Channel::Common);
        assert_eq!(given_up.channel(bad, now + MEMORY), Channel::Common);
    }

    #[test]
    fn a_client_that_gives_up_a_request_now_and_then_keeps_the_common_channel() {
        let (mut given_up, start) = (GivenUp::default(), now());
        let client = ClientId::of("a");
        for number in 0..1000 {
            let now = start + INTERVAL * number;
            assert!(given_up.record(client, now).is_zero());
            assert_eq!(given_up.channel(client, now), Channel::Common);
        }
    }

    #[test]
    fn many_names_do_not_free_a_client_that_has_given_up_many_requests() {
        let (mut given_up, now) = (GivenUp::default(), now());
        let bad = ClientId::of("bad");
        for _ in 0..1000 {
            given_up.record(bad, now);
        }
        for number in 0..3 * MAX_CLIENTS {
            given_up.record(ClientId::of(&number.to_string()), now);
        }
        assert_eq!(given_up.channel(bad, now), Channel::Separate);
        assert!(given_up.0.len() <= MAX_CLIENTS);
    }

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_request_is_expected_to_end_as_late_as_others_and_soon_after_it_is_given_up() {
        let (since, mut times) = (now(), AnswerTime::default());
        let at = |number| since + milliseconds(number);
        assert_eq!(times.expected_end(since, since), None);
        times.record(milliseconds(80));
        assert_eq!(times.expected_end(since, at(30)), Some(at(80)));
        assert_eq!(times.expected_end(since, at(80)), None);
        times.record(milliseconds(8000));
        assert_eq!(times.expected_end(since, at(30)), Some(at(130)));
    }

    proptest! {
        #[test]
        fn the_mean_is_between_the_shortest_and_the_longest_answer(times in prop::collection::vec(1_u64..100_000, 1..50)) {
            let mut mean = AnswerTime::default();
            times.iter().for_each(|time| mean.record(milliseconds(*time)));
            let (least, most) = (times.iter().min().copied().unwrap(), times.iter().max().copied().unwrap());
            let mean = mean.0.unwrap();
            // Each division may round down by a nanosecond.
            prop_assert!(mean + Duration::from_micros(1) >= milliseconds(least) && mean <= milliseconds(most) + Duration::from_micros(1));
        }
    }
}
