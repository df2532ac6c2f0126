//! Lets things out in the order of their places, however they come in.

use std::collections::VecDeque;

/// A reorder buffer. Places are 0, 1, 2, …; each is either filled once or given up once.
#[derive(Debug)]
pub struct Sequence<T> {
    /// The place at the front of `places`.
    first: u64,
    places: VecDeque<Place<T>>,
}

#[derive(Debug)]
enum Place<T> {
    Awaited,
    Held(T),
    GivenUp,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Self {
            first: 0,
            places: VecDeque::new(),
        }
    }
}

impl<T> Sequence<T> {
    /// Fills a place and returns what may leave now, in order.
    pub fn fill(&mut self, place: u64, thing: T) -> Vec<T> {
        self.settle(place, Place::Held(thing))
    }

    /// Says that nothing will come for a place, and returns what may leave now, in order.
    pub fn give_up(&mut self, place: u64) -> Vec<T> {
        self.settle(place, Place::GivenUp)
    }

    /// How many things are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        let held = |place: &&Place<T>| matches!(place, Place::Held(_));
        self.places.iter().filter(held).count()
    }

    fn settle(&mut self, place: u64, as_what: Place<T>) -> Vec<T> {
        let Some(i) = place.checked_sub(self.first) else {
            return Vec::new(); // settled before
        };
        let i = i as usize;
        while self.places.len() <= i {
            self.places.push_back(Place::Awaited);
        }
        if matches!(self.places[i], Place::Awaited) {
            self.places[i] = as_what;
        }
        self.release()
    }

    fn release(&mut self) -> Vec<T> {
        let mut released = Vec::new();
        loop {
            match self.places.pop_front() {
                Some(Place::Held(thing)) => released.push(thing),
                Some(Place::GivenUp) => {}
                Some(Place::Awaited) => {
                    self.places.push_front(Place::Awaited);
                    return released;
                }
                None => return released,
            }
            self.first += 1;
        }
    }
}
