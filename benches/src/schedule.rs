//! The schedule of an open loop.

use std::time::{Duration, Instant};

use crate::args::Arrivals;

/// Iterator over the times at which requests are due.
#[derive(Debug)]
pub(crate) struct Schedule {
    next: Instant,
    gap: f64,
    arrivals: Arrivals,
    state: u64,
}

impl Schedule {
    /// Schedules `rate` requests a second from `start` on.
    pub(crate) fn new(start: Instant, rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        Self { next: start, gap: 1.0 / rate, arrivals, state: seed }
    }

    /// Returns the time of the next request, which is past if all connections were busy.
    pub(crate) fn take(&mut self) -> Instant {
        let gap = match self.arrivals {
            Arrivals::Uniform => self.gap,
            Arrivals::Poisson => self.gap * -self.uniform().ln(),
        };
        self.next += Duration::from_secs_f64(gap);
        self.next
    }

    /// Returns a random number in (0, 1], made by splitmix64, whose upper 53 bits fill a double.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
