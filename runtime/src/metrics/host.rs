//! The machine's processors and memory, from `/proc`; no values on systems without it.

use std::fs;

use super::Pool;

/// Processor time since boot in ticks, summed over all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processor {
    busy: u64,
    total: u64,
    /// Number of processors in the machine.
    count: u64,
}

/// Ticks per second of each processor: `/proc/stat` counts hundredths of a second.
const TICKS: u64 = 100;

impl Processor {
    pub(super) fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. The guest times
    /// that follow are already part of the user time.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Option<Vec<u64>> = line.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
        let fields = fields?;
        let total = fields.iter().sum();
        let idle: u64 = fields.get(3..5)?.iter().sum();
        Some(Self { busy: total - idle, total, count: each(stat).count() as u64 })
    }

    /// True if less than a second has passed since `before`.
    fn is_soon_after(self, before: Self) -> bool {
        let passed = self.total.checked_sub(before.total);
        passed.is_some_and(|ticks| ticks < TICKS * self.count)
    }

    /// Share of time in which the processors were busy since `before`, 0 to 1; 0 if no tick has passed.
    pub(super) fn utilization_since(self, before: Self) -> f64 {
        let total = self.total.saturating_sub(before.total);
        let busy = self.busy.saturating_sub(before.busy);
        if total == 0 { 0.0 } else { (busy as f64 / total as f64).min(1.0) }
    }
}

/// Returns the lines of the single processors, which follow the line with their sum.
fn each(stat: &str) -> impl Iterator<Item = &str> {
    stat.lines().skip(1).take_while(|line| line.starts_with("cpu"))
}

/// The share of time in which the processors were busy between two readings.
#[derive(Debug)]
pub(super) struct Utilization {
    since: Option<Processor>,
    share: f64,
}

impl Utilization {
    /// Starts measuring; the share is 0 until the next reading.
    pub(super) fn begin() -> Self {
        Self { since: Processor::read(), share: 0.0 }
    }

    /// Returns the share since the last reading. Within a second of it, the previous share is returned again: two
    /// scrapers at nearly the same time would otherwise measure only a few ticks.
    pub(super) fn at(&mut self, now: Processor) -> f64 {
        match self.since {
            Some(since) if now.is_soon_after(since) => {}
            Some(since) => {
                self.share = now.utilization_since(since);
                self.since = Some(now);
            }
            None => self.since = Some(now),
        }
        self.share
    }
}

/// Memory of the machine; memory in use is all that is not available without swapping.
pub(super) fn memory() -> Option<Pool> {
    parse_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_memory(meminfo: &str) -> Option<Pool> {
    let bytes = |key: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    let total = bytes("MemTotal:")?;
    Some(Pool { total, used: total.saturating_sub(bytes("MemAvailable:")?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading of a machine with two processors.
    fn processor(busy: u64, total: u64) -> Processor {
        Processor { busy, total, count: 2 }
    }

    #[test]
    fn a_scrape_soon_after_another_returns_the_same_share() {
        let mut utilization = Utilization { since: Some(processor(0, 1000)), share: 0.0 };
        // Two processors have 200 ticks per second.
        assert_eq!(utilization.at(processor(300, 2000)), 0.3);
        assert_eq!(utilization.at(processor(300, 2001)), 0.3);
        assert_eq!(utilization.at(processor(498, 2199)), 0.3);
        assert_eq!(utilization.at(processor(400, 2200)), 0.5);
        // If the counts restart from zero, the next reading must measure again.
        utilization.at(processor(0, 10));
        assert_eq!(utilization.at(processor(200, 210)), 1.0);
    }

    #[test]
    fn utilization_is_the_share_of_ticks_not_idle() {
        let stat = "cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1\ncpu1 1\nintr 7\n";
        let before = Processor::parse(stat).unwrap();
        assert_eq!(before, processor(20, 100));
        let after = processor(50, 200);
        assert_eq!(after.utilization_since(before), 0.3);
        assert_eq!(before.utilization_since(before), 0.0);
    }

    #[test]
    fn memory_in_use_is_all_that_is_not_available() {
        let pool = parse_memory("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n");
        assert_eq!(pool, Some(Pool { total: 102_400, used: 61_440 }));
    }
}
