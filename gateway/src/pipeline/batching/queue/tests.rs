//! Laws of the batch queue, checked on random histories.

#![expect(clippy::disallowed_methods, reason = "histories begin at any time; only differences count")]

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Arrive { key: u8, rows: usize },
    Leave { nth: usize },
    Complete,
    Wait { ms: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u8..3, 1_usize..7).prop_map(|(key, rows)| Event::Arrive { key, rows }),
        1 => (0_usize..8).prop_map(|nth| Event::Leave { nth }),
        2 => Just(Event::Complete),
        2 => (0_u64..30).prop_map(|ms| Event::Wait { ms }),
    ];
    proptest::collection::vec(event, 0..120)
}

#[derive(Clone, Copy, Debug)]
struct TestEntry {
    key: u8,
    rows: usize,
    number: usize,
    since: Instant,
}

/// A history of events, with a model of the queue for comparison.
struct History {
    queue: BatchQueue<u8, TestEntry>,
    limits: BatchLimits,
    now: Instant,
    waiting: Vec<(u64, TestEntry)>,
    in_flight: usize,
    arrived: usize,
    last_of: HashMap<u8, usize>,
}

impl History {
    fn new(limits: BatchLimits) -> Self {
        Self {
            queue: BatchQueue::default(),
            limits,
            now: Instant::now(),
            waiting: Vec::new(),
            in_flight: 0,
            arrived: 0,
            last_of: HashMap::new(),
        }
    }

    fn play(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Arrive { key, rows } => self.arrive(key, rows)?,
            Event::Leave { nth } if nth < self.waiting.len() => {
                let (ticket, _) = self.waiting.remove(nth);
                self.queue.remove(ticket);
                // A second removal has no effect.
                self.queue.remove(ticket);
            }
            Event::Complete if self.in_flight > 0 => {
                self.queue.complete();
                self.in_flight -= 1;
            }
            Event::Leave { .. } | Event::Complete => {}
            Event::Wait { ms } => self.now += Duration::from_millis(ms),
        }
        self.serve()
    }

    fn arrive(&mut self, key: u8, rows: usize) -> Result<(), TestCaseError> {
        self.arrived += 1;
        let one = TestEntry { key, rows, number: self.arrived, since: self.now };
        let item = one;
        let entry = NewEntry { key, rows, bytes: rows, item };
        let bytes: usize = self.waiting.iter().map(|(_, one)| one.rows).sum();
        let limit = self.limits.queue;
        let has_room = self.waiting.len() < limit.requests && bytes + rows <= limit.bytes;
        let is_admitted = has_room || self.in_flight < self.limits.max_in_flight;
        match self.queue.admit(entry, self.now, &self.limits) {
            Ok(ticket) => self.waiting.push((ticket, one)),
            Err(refused) => prop_assert_eq!(refused.number, one.number),
        }
        prop_assert_eq!(is_admitted, self.waiting.last().is_some_and(|(_, last)| last.number == one.number));
        Ok(())
    }

    fn serve(&mut self) -> Result<(), TestCaseError> {
        while let Some(batch) = self.queue.next(&self.limits, self.now) {
            self.in_flight += 1;
            self.check_batch(&batch)?;
        }
        let bytes = self.waiting.iter().map(|(_, one)| one.rows).sum();
        prop_assert_eq!(self.queue.content(), QueueLimit { requests: self.waiting.len(), bytes });
        let late = self.waiting.iter().find(|(_, one)| one.since + self.limits.max_delay <= self.now);
        prop_assert!(late.is_none(), "{late:?} waits too long");
        prop_assert!(self.waiting.is_empty() || self.in_flight >= self.limits.max_in_flight);
        for key in 0..3 {
            let of_key = self.waiting.iter().filter(|(_, one)| one.key == key);
            let rows: usize = of_key.map(|(_, one)| one.rows).sum();
            prop_assert!(rows < self.limits.max_rows, "{rows} rows of {key} wait");
        }
        Ok(())
    }

    fn check_batch(&mut self, batch: &[TestEntry]) -> Result<(), TestCaseError> {
        prop_assert!(!batch.is_empty());
        let rows: usize = batch.iter().map(|one| one.rows).sum();
        prop_assert!(rows <= self.limits.max_rows || batch.len() == 1);
        for one in batch {
            prop_assert_eq!(one.key, batch[0].key);
            let at = self.waiting.iter().position(|(_, waits)| waits.number == one.number);
            prop_assert!(at.is_some(), "{one:?} goes twice, or after it left");
            self.waiting.remove(at.unwrap_or_default());
            let last = self.last_of.insert(one.key, one.number);
            prop_assert!(last.is_none_or(|last| last < one.number), "{one:?} was overtaken");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn entries_leave_once_in_order_in_time_and_in_bounded_batches(
        events in events(),
        rows in 1_usize..9,
        max_delay in 0_u64..40,
        max_in_flight in 1_usize..3,
        requests in 0_usize..12,
        bytes in 0_usize..40,
    ) {
        let max_delay = Duration::from_millis(max_delay);
        let queue = QueueLimit { requests, bytes };
        let mut history = History::new(BatchLimits { max_rows: rows, max_delay, max_in_flight, queue });
        for event in &events {
            history.play(event)?;
        }
        while history.in_flight > 0 || !history.waiting.is_empty() {
            history.play(&Event::Complete)?;
        }
        prop_assert_eq!(history.queue.content(), QueueLimit { requests: 0, bytes: 0 });
        prop_assert!(history.queue.groups.is_empty());
    }
}

#[test]
fn the_second_batch_waits_for_the_first_to_complete() {
    let queue = QueueLimit { requests: 9, bytes: 9 };
    let limits = BatchLimits { max_rows: 8, max_delay: Duration::from_secs(5), max_in_flight: 1, queue };
    let (mut queue, now) = (BatchQueue::default(), Instant::now());
    for one in ["a", "b", "c"] {
        let entry = NewEntry { key: 0, rows: 1, bytes: 1, item: one };
        queue.admit(entry, now, &limits).unwrap();
        let batch = (one == "a").then(|| vec![one]);
        assert_eq!(queue.next(&limits, now), batch);
    }
    queue.complete();
    assert_eq!(queue.next(&limits, now), Some(vec!["b", "c"]));
}
