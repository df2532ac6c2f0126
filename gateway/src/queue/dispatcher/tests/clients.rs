//! Requests of several clients.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use weir_access::ClientId;

use super::*;

fn share(name: &str, weight: u16) -> ClientShare {
    ClientShare { client: ClientId::of(name), weight: NonZeroU16::new(weight).unwrap() }
}

fn of(name: &str) -> DispatchRequest {
    DispatchRequest { share: share(name, 1), ..request(1) }
}

/// Ends a request at a replica, after this many milliseconds, and returns those that go there next.
fn ended(dispatcher: &mut TestDispatcher, held: Granted<u32>, ms: u64, now: Instant) -> Vec<(u64, Granted<u32>)> {
    dispatcher.charge(held.charge, Some(Duration::from_millis(ms)), now);
    all_granted(dispatcher.settle(held.id, Outcome::Answered(Duration::from_millis(ms)), now))
}

/// Ends the only request at a replica, and returns the next one.
fn end(dispatcher: &mut TestDispatcher, held: Granted<u32>, ms: u64, now: Instant) -> Option<(u64, Granted<u32>)> {
    ended(dispatcher, held, ms, now).into_iter().next()
}

#[test]
fn a_client_passes_the_long_queue_of_another_one() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 1)], now);
    // A request without a client's name is at the replica before the first request with a name arrives.
    let held = granted(dispatcher.enter(request(1), now, || 0));
    for waiter in 1..5 {
        assert_eq!(dispatcher.enter(request(1), now, || waiter), Admission::Queued(waiter));
    }
    assert_eq!(dispatcher.enter(of("b"), now, || 5), Admission::Queued(5));
    let (first, held) = end(&mut dispatcher, held, 10, now).unwrap();
    // The request at the replica was not charged, so the older one is first among equals.
    assert_eq!((first, held.charge.is_some()), (1, true));
    let (second, held) = end(&mut dispatcher, held, 10, now).unwrap();
    assert_eq!(second, 5);
    let (third, _) = end(&mut dispatcher, held, 10, now).unwrap();
    assert_eq!(third, 2);
}

#[test]
fn a_full_queue_gives_each_client_its_places() {
    let now = start();
    let mut dispatcher: TestDispatcher = Dispatcher::new(LIMIT);
    for waiter in 0..8 {
        assert_eq!(dispatcher.enter(of("a"), now, || waiter), Admission::Queued(waiter));
    }
    let full = QueueLimit { requests: 8, bytes: 8 };
    assert_eq!(dispatcher.enter(of("a"), now, || 8), Admission::Full(full));
    for (waiter, newest) in [(8, 7), (9, 6), (10, 5), (11, 4)] {
        assert_eq!(dispatcher.enter(of("b"), now, || waiter), Admission::Queued(waiter));
        assert_eq!(displaced(&mut dispatcher), [newest]);
    }
    assert_eq!(dispatcher.enter(of("a"), now, || 12), Admission::OverShare(full));
    assert_eq!(dispatcher.enter(of("b"), now, || 12), Admission::OverShare(full));
    assert_eq!((displaced(&mut dispatcher), dispatcher.queued()), (vec![], full));
}

#[test]
fn a_long_body_within_a_share_displaces_as_many_requests_as_it_needs() {
    let now = start();
    let mut dispatcher: TestDispatcher = Dispatcher::new(LIMIT);
    for waiter in 0..5 {
        dispatcher.enter(DispatchRequest { bytes: 20, ..of("a") }, now, || waiter);
    }
    let long = |bytes| DispatchRequest { bytes, ..of("b") };
    assert_eq!(dispatcher.enter(long(51), now, || 5), Admission::OverShare(QueueLimit { requests: 5, bytes: 100 }));
    assert_eq!(dispatcher.enter(long(50), now, || 5), Admission::Queued(5));
    assert_eq!(displaced(&mut dispatcher), [4, 3, 2]);
    assert_eq!(dispatcher.queued(), QueueLimit { requests: 3, bytes: 90 });
}

proptest! {
    #[test]
    fn no_request_of_several_clients_is_lost_and_each_client_is_served(
        steps in proptest::collection::vec((0_usize..6, 0_usize..50, 0_u64..50), 1..200),
    ) {
        let now = start();
        let mut dispatcher = dispatcher(vec![spec(1, 1), spec(2, 2)], now);
        let (mut waiting, mut held) = (BTreeMap::new(), Vec::new());
        for (step, index, ms) in steps {
            let name = ["a", "b", "c"].get(step).copied();
            match name {
                Some(name) => {
                    let waiter = dispatcher.next_sequence;
                    match dispatcher.enter(of(name), now, || waiter) {
                        Admission::Granted(granted) => held.push((name, granted)),
                        Admission::Queued(sequence) => drop(waiting.insert(sequence, name)),
                        Admission::Full(_) | Admission::OverShare(_) => prop_assert_eq!(waiting.len(), LIMIT.requests),
                        other => panic!("{other:?} with one gateway"),
                    }
                    for gone in displaced(&mut dispatcher) {
                        prop_assert!(waiting.remove(&gone).is_some_and(|other| other != name));
                    }
                }
                None if held.is_empty() => {}
                None => {
                    let (_, last) = held.swap_remove(index % held.len());
                    for (waiter, granted) in ended(&mut dispatcher, last, ms, now) {
                        let name = waiting.remove(&waiter).unwrap();
                        let earlier = waiting.iter().find(|(other, of)| **other < waiter && **of == name);
                        prop_assert_eq!(earlier, None, "a client's request overtook an earlier one");
                        held.push((name, granted));
                    }
                }
            }
            // A credit that is kept free is denied only to clients that already hold one.
            let is_served = |name: &&str| held.len() == 3 || held.iter().any(|(of, _)| of == name);
            prop_assert!(waiting.values().all(is_served), "a client waits while a replica is free");
            prop_assert!(held.len() <= 3);
            prop_assert_eq!(dispatcher.queued().requests, waiting.len());
        }
    }
}

#[test]
fn a_credit_that_another_client_has_used_is_kept_for_it_for_some_seconds() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 4)], now);
    let of_b = granted(dispatcher.enter(of("b"), now, || 0));
    assert_eq!(end(&mut dispatcher, of_b, 10, now), None);
    let held: Vec<_> = (1..4).map(|waiter| granted(dispatcher.enter(of("a"), now, || waiter))).collect();
    assert_eq!(dispatcher.enter(of("a"), now, || 4), Admission::Queued(4));
    // The client for which the credit is kept gets it at once.
    let later = now + Duration::from_secs(3);
    let of_b = granted(dispatcher.enter(of("b"), later, || 5));
    assert_eq!(end(&mut dispatcher, of_b, 10, later), None);
    let at = dispatcher.next_review(later).unwrap();
    assert!(at > later && dispatcher.serve(at).is_empty());
    // Once the credit has not been used for long enough, the other client gets it, without the end of any request.
    let after = later + Duration::from_secs(6);
    assert_eq!(gone(dispatcher.serve(after)), [(4, 1)]);
    assert_eq!((dispatcher.next_review(after), held.len()), (None, 3));
}

#[test]
fn a_stream_that_rests_holds_no_credit() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 2)], now);
    let of_b = granted(dispatcher.enter(of("b"), now, || 0));
    end(&mut dispatcher, of_b, 10, now);
    let stream = granted(dispatcher.enter(of("a"), now, || 1));
    assert_eq!(dispatcher.enter(of("a"), now, || 2), Admission::Queued(2));
    let dequeued = dispatcher.rest(stream.id, stream.charge, now);
    assert_eq!(gone(dequeued), [(2, 1)]);
    dispatcher.resume(stream.id, stream.charge, now);
    assert_eq!(dispatcher.enter(of("a"), now, || 3), Admission::Queued(3));
}

#[test]
fn a_measured_limit_is_used_in_full() {
    let now = start();
    let measured = EndpointSpec { concurrency: None, ..spec(1, 1) };
    let mut dispatcher = dispatcher(vec![measured, spec(2, 3)], now);
    let of_b = granted(dispatcher.enter(of("b"), now, || 0));
    end(&mut dispatcher, of_b, 10, now);
    let replicas: Vec<u32> = (1..5).map(|waiter| granted(dispatcher.enter(of("a"), now, || waiter)).replica).collect();
    assert_eq!((replicas.len(), dispatcher.next_review(now)), (4, None));
}
