//! The pairs of streams of a device, each lent to one instance at a time.
//!
//! libtorch has 32 streams for each device and returns them in turn, so without a record of the lent ones, two instances get
//! the same stream once 16 were created. A capture records whatever any thread queues on its stream, so it needs a stream
//! that no other instance uses. A stream that is lent again keeps its workspace of cuBLAS, of which there is one for each
//! stream and thread, up to 32 MiB on recent devices; so loading and unloading models for days takes no more of them than
//! there were instances at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::libtorch::fault::Fault;

/// Largest number of streams to draw in search of one that is in no pair: twice the number of libtorch's streams, so
/// that each of them is drawn.
const MOST_DRAWS: usize = 64;

/// The streams of an instance: one copies inputs, the other runs the model.
#[derive(Debug)]
pub(crate) struct Pair<S> {
    pub(crate) upload: S,
    pub(crate) compute: S,
}

/// The use of a pair by one instance or by several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenancy {
    Alone,
    Shared,
}

/// A pair that is lent until the last reference to it is dropped, by the instance or by its last output.
#[derive(Debug)]
pub(crate) struct Lent<S> {
    pub(crate) pair: Arc<Pair<S>>,
    pub(crate) tenancy: Tenancy,
}

/// A stream with the number by which libtorch tells it from others of the same device.
pub(crate) trait Numbered {
    fn number(&self) -> i64;
}

/// The pairs of one device.
#[derive(Debug)]
pub(crate) struct StreamPairs<S> {
    /// Numbers of all streams below.
    known: BTreeSet<i64>,
    /// The pair that instances share for which no pair of their own is left.
    shared: Arc<Pair<S>>,
    alone: Vec<Arc<Pair<S>>>,
}

impl<S: Numbered> StreamPairs<S> {
    /// Takes the first streams of a device. `draw` returns a stream, which may be one that it returned before.
    pub(crate) fn new(mut draw: impl FnMut() -> Result<S, Fault>) -> Result<Self, Fault> {
        let shared = Arc::new(Pair { upload: draw()?, compute: draw()? });
        let known = BTreeSet::from([shared.upload.number(), shared.compute.number()]);
        Ok(Self { known, shared, alone: Vec::new() })
    }

    /// Lends a pair: one that was returned, else a new one, else the shared one.
    pub(crate) fn lend(&mut self, draw: impl FnMut() -> Result<S, Fault>) -> Result<Lent<S>, Fault> {
        // Only this value has a reference to a pair that was returned, and no other thread can make one.
        let returned = self.alone.iter().find(|pair| Arc::strong_count(pair) == 1).cloned();
        let pair = match returned {
            Some(pair) => Some(pair),
            None => self.draw_pair(draw)?,
        };
        Ok(match pair {
            Some(pair) => Lent { pair, tenancy: Tenancy::Alone },
            None => Lent { pair: Arc::clone(&self.shared), tenancy: Tenancy::Shared },
        })
    }

    /// Takes two streams that are in no pair yet; `None` if there are none.
    fn draw_pair(&mut self, mut draw: impl FnMut() -> Result<S, Fault>) -> Result<Option<Arc<Pair<S>>>, Fault> {
        let mut new = Vec::new();
        for _ in 0..MOST_DRAWS {
            let stream = draw()?;
            if self.known.insert(stream.number()) {
                new.push(stream);
            }
            if new.len() == 2 {
                break;
            }
        }
        let (Some(compute), Some(upload)) = (new.pop(), new.pop()) else { return Ok(None) };
        let pair = Arc::new(Pair { upload, compute });
        self.alone.push(Arc::clone(&pair));
        Ok(Some(pair))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Numbered for i64 {
        fn number(&self) -> i64 {
            *self
        }
    }

    /// libtorch's pool of one device: `count` streams in turn.
    struct FakePool {
        count: i64,
        drawn: i64,
    }

    impl FakePool {
        fn draw(&mut self) -> Result<i64, Fault> {
            self.drawn += 1;
            Ok(self.drawn % self.count)
        }
    }

    fn streams(lent: &Lent<i64>) -> [i64; 2] {
        [lent.pair.upload, lent.pair.compute]
    }

    proptest! {
        /// A stream of an instance that is alone belongs to no other instance, whatever was loaded and unloaded before.
        /// Streams are lent again, so there are never more than instances were alive at a time.
        #[test]
        fn no_other_instance_has_a_stream_that_is_lent_alone(
            count in 2i64..40, steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200)
        ) {
            let mut pool = FakePool { count, drawn: 0 };
            let mut pairs = StreamPairs::new(|| pool.draw()).unwrap();
            let (mut alive, mut most): (Vec<Lent<i64>>, usize) = (Vec::new(), 0);
            for (load, which) in steps {
                if load || alive.is_empty() {
                    let lent = pairs.lend(|| pool.draw()).unwrap();
                    let others = alive.iter().filter(|lent| lent.tenancy == Tenancy::Alone).count() as i64;
                    prop_assert_eq!(lent.tenancy == Tenancy::Shared, others == (count - 2) / 2);
                    alive.push(lent);
                } else {
                    alive.swap_remove(which.index(alive.len()));
                }
                most = most.max(alive.len());
                let (alone, shared): (Vec<_>, Vec<_>) = alive.iter().partition(|lent| lent.tenancy == Tenancy::Alone);
                let lent: Vec<i64> = alone.iter().flat_map(|lent| streams(lent)).collect();
                prop_assert_eq!(lent.iter().collect::<BTreeSet<_>>().len(), lent.len());
                prop_assert!(shared.iter().flat_map(|lent| streams(lent)).all(|stream| !lent.contains(&stream)));
                prop_assert!(pairs.alone.len() <= most);
            }
        }
    }

    #[test]
    fn a_failure_of_the_device_is_returned() {
        let fails = || Err::<i64, _>(Fault::Raised("no device".to_owned()));
        assert!(StreamPairs::new(fails).is_err());
        let mut pool = FakePool { count: 32, drawn: 0 };
        let mut pairs = StreamPairs::new(|| pool.draw()).unwrap();
        assert!(pairs.lend(fails).is_err());
        assert_eq!(pairs.lend(|| pool.draw()).unwrap().tenancy, Tenancy::Alone);
    }
}
