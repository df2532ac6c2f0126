//! Clock that times the controller's decisions: the machine's clock, except that it never goes back.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::clock;

/// Clock that follows the machine's clock. If that is set back, this one continues by itself: otherwise every timer
/// would wait until the machine's clock has caught up.
pub(super) struct Clock {
    /// Time since 1970 at the last reading.
    last: Duration,
    at: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { last: wall(), at: clock::now() }
    }

    /// Returns the seconds since 1970, a unit that stays valid when the process restarts.
    pub(super) fn now(&mut self) -> u64 {
        self.read(wall(), clock::now())
    }

    fn read(&mut self, wall: Duration, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.at);
        (self.last, self.at) = (wall.max(self.last.saturating_add(passed)), at);
        self.last.as_secs()
    }
}

#[expect(clippy::disallowed_methods, reason = "the only place that reads the controller's clock")]
fn wall() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_machines_and_never_goes_back() {
        let (begin, second) = (crate::clock::now(), Duration::from_secs(1));
        let mut clock = Clock { last: second * 1000, at: begin };
        let mut read = |wall: u32, after: u32| clock.read(second * wall, begin + second * after);
        assert_eq!(read(1002, 2), 1002);
        assert_eq!(read(1600, 3), 1600, "set forward, or woken from sleep");
        assert_eq!(read(1001, 8), 1605, "set back");
        assert_eq!(read(1002, 9), 1606);
        assert_eq!(read(1700, 10), 1700);
    }
}
