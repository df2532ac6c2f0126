//! The laws of gathering, over random histories.

#![expect(
    clippy::disallowed_methods,
    reason = "histories begin now; only differences from it count"
)]

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Comes { key: u8, rows: usize },
    Leaves { nth: usize },
    Lands,
    Passes { ms: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u8..3, 1_usize..7).prop_map(|(key, rows)| Event::Comes { key, rows }),
        1 => (0_usize..8).prop_map(|nth| Event::Leaves { nth }),
        2 => Just(Event::Lands),
        2 => (0_u64..30).prop_map(|ms| Event::Passes { ms }),
    ];
    proptest::collection::vec(event, 0..120)
}

#[derive(Clone, Copy, Debug)]
struct One {
    key: u8,
    rows: usize,
    number: usize,
    since: Instant,
}

/// A history and what became of everybody in it.
struct History {
    gatherer: Gatherer<u8, One>,
    bounds: Bounds,
    now: Instant,
    waiting: Vec<(u64, One)>,
    flying: usize,
    came: usize,
    last_of: HashMap<u8, usize>,
}

impl History {
    fn new(bounds: Bounds) -> Self {
        Self {
            gatherer: Gatherer::default(),
            bounds,
            now: Instant::now(),
            waiting: Vec::new(),
            flying: 0,
            came: 0,
            last_of: HashMap::new(),
        }
    }

    fn play(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Comes { key, rows } => self.come(key, rows)?,
            Event::Leaves { nth } if nth < self.waiting.len() => {
                let (ticket, _) = self.waiting.remove(nth);
                self.gatherer.forget(ticket);
                // Twice is as good as once.
                self.gatherer.forget(ticket);
            }
            Event::Lands if self.flying > 0 => {
                self.gatherer.landed();
                self.flying -= 1;
            }
            Event::Leaves { .. } | Event::Lands => {}
            Event::Passes { ms } => self.now += Duration::from_millis(ms),
        }
        self.serve()
    }

    fn come(&mut self, key: u8, rows: usize) -> Result<(), TestCaseError> {
        self.came += 1;
        let one = One {
            key,
            rows,
            number: self.came,
            since: self.now,
        };
        let item = one;
        let entry = Entry { key, rows, item };
        let room = self.waiting.len() < self.bounds.room || self.flying < self.bounds.flights;
        match self.gatherer.admit(entry, self.now, &self.bounds) {
            Ok(ticket) => self.waiting.push((ticket, one)),
            Err(refused) => prop_assert_eq!(refused.number, one.number),
        }
        prop_assert_eq!(
            room,
            self.waiting
                .last()
                .is_some_and(|(_, last)| last.number == one.number)
        );
        Ok(())
    }

    fn serve(&mut self) -> Result<(), TestCaseError> {
        while let Some(batch) = self.gatherer.next(&self.bounds, self.now) {
            self.flying += 1;
            self.check_batch(&batch)?;
        }
        prop_assert_eq!(self.gatherer.waiting(), self.waiting.len());
        let late = self
            .waiting
            .iter()
            .find(|(_, one)| one.since + self.bounds.wait <= self.now);
        prop_assert!(late.is_none(), "{late:?} waits too long");
        prop_assert!(self.waiting.is_empty() || self.flying >= self.bounds.flights);
        for key in 0..3 {
            let of_key = self.waiting.iter().filter(|(_, one)| one.key == key);
            let rows: usize = of_key.map(|(_, one)| one.rows).sum();
            prop_assert!(rows < self.bounds.rows, "{rows} rows of {key} wait");
        }
        Ok(())
    }

    fn check_batch(&mut self, batch: &[One]) -> Result<(), TestCaseError> {
        prop_assert!(!batch.is_empty());
        let rows: usize = batch.iter().map(|one| one.rows).sum();
        prop_assert!(rows <= self.bounds.rows || batch.len() == 1);
        for one in batch {
            prop_assert_eq!(one.key, batch[0].key);
            let at = self
                .waiting
                .iter()
                .position(|(_, waits)| waits.number == one.number);
            prop_assert!(at.is_some(), "{one:?} goes twice, or after it left");
            self.waiting.remove(at.unwrap_or_default());
            let last = self.last_of.insert(one.key, one.number);
            prop_assert!(
                last.is_none_or(|last| last < one.number),
                "{one:?} was overtaken"
            );
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn all_go_once_in_order_in_time_and_never_too_many(
        events in events(),
        rows in 1_usize..9,
        wait in 0_u64..40,
        flights in 1_usize..3,
        room in 0_usize..12,
    ) {
        let wait = Duration::from_millis(wait);
        let mut history = History::new(Bounds { rows, wait, flights, room });
        for event in &events {
            history.play(event)?;
        }
        while history.flying > 0 || !history.waiting.is_empty() {
            history.play(&Event::Lands)?;
        }
        prop_assert_eq!(history.gatherer.waiting(), 0);
        prop_assert!(history.gatherer.groups.is_empty());
    }
}

#[test]
fn the_second_waits_for_the_first_to_land() {
    let bounds = Bounds {
        rows: 8,
        wait: Duration::from_secs(5),
        flights: 1,
        room: 9,
    };
    let (mut gatherer, now) = (Gatherer::default(), Instant::now());
    for one in ["a", "b", "c"] {
        let entry = Entry {
            key: 0,
            rows: 1,
            item: one,
        };
        gatherer.admit(entry, now, &bounds).unwrap();
        match one {
            "a" => assert_eq!(gatherer.next(&bounds, now), Some(vec!["a"])),
            _ => assert_eq!(gatherer.next(&bounds, now), None),
        }
    }
    gatherer.landed();
    assert_eq!(gatherer.next(&bounds, now), Some(vec!["b", "c"]));
}
