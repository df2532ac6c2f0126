//! The credits that clients hold, now and recently.

use std::time::Instant;

use super::peaks::{Peaks, window_before};

/// Credits that all clients hold.
#[derive(Debug, Default)]
pub(super) struct AllHeld {
    pub(super) held: u32,
    peaks: Peaks,
}

/// Credits that one client holds, compared with all others.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) held: u32,
    /// Time up to which `others` and `balance` are computed. `held` has not changed since.
    since: Instant,
    /// Credits that all others together held at once.
    others: Peaks,
    /// Credit-seconds of the client's part that it has not used.
    balance: f64,
}

/// Credits to which a client is entitled and those that it could use, since its last change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// The client's part of all credits.
    pub(super) part: f64,
    /// Credits that the client holds or waits for.
    pub(super) wanted: usize,
    /// Time for which a client may save its unused part, in seconds.
    pub(super) saved_s: f64,
}

impl AllHeld {
    /// Counts one more credit.
    pub(super) fn take(&mut self, now: Instant) {
        self.peaks.record(self.held, now);
        self.held += 1;
    }

    /// Counts one credit less.
    pub(super) fn give(&mut self, now: Instant) {
        self.peaks.record(self.held, now);
        self.held = self.held.saturating_sub(1);
    }

    /// Returns the most credits that were held at once after `since`, within the window that ends at `now`.
    fn highest(&self, since: Instant, now: Instant) -> u32 {
        self.held.max(self.peaks.after(since.max(window_before(now))))
    }
}

impl Holding {
    /// Returns the state of a client that has held nothing recently: all held credits were those of others.
    pub(super) fn new(all: &AllHeld, now: Instant) -> Self {
        let mut others = Peaks::default();
        others.record(all.highest(window_before(now), now), now);
        Self { held: 0, since: now, others, balance: 0.0 }
    }

    /// Returns true if the client has changed within the window that ends at `now`.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        self.since > window_before(now)
    }

    /// Returns the most credits that all others have held at once within the window that ends at `now`.
    pub(super) fn others_recently(&self, all: &AllHeld, now: Instant) -> u32 {
        let since_change = all.highest(self.since, now).saturating_sub(self.held);
        since_change.max(self.others.after(window_before(now)))
    }

    /// Returns the credit-seconds that the client has saved at `now`; negative if it wanted more than its part.
    pub(super) fn balance(&self, demand: Demand, now: Instant) -> f64 {
        let most = demand.part.max(1.0) * demand.saved_s;
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        (self.balance + (demand.part - demand.wanted as f64) * passed).clamp(-most, most)
    }

    /// Computes everything up to `now`, before the client changes. Without a demand, because no credits are shared, the
    /// balance stays.
    pub(super) fn pass(&mut self, all: &AllHeld, demand: Option<Demand>, now: Instant) {
        self.balance = demand.map_or(self.balance, |demand| self.balance(demand, now));
        self.others.record(all.highest(self.since, now).saturating_sub(self.held), now);
        self.since = self.since.max(now);
    }
}
