//! The machine's processor and memory, from `/proc`; nothing where there is none.

use std::fs;

use super::Pool;

/// Processor time since the machine started, in ticks, all processors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processor {
    busy: u64,
    total: u64,
}

impl Processor {
    pub(super) fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal; guest time after them is
    /// part of user time already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Option<Vec<u64>> = line
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect();
        let fields = fields?;
        let total = fields.iter().sum();
        let idle: u64 = fields.get(3..5)?.iter().sum();
        Some(Self {
            busy: total - idle,
            total,
        })
    }

    /// Share of time busy since `before`, 0 to 1; 0 when no tick passed.
    pub(super) fn utilization_since(self, before: Self) -> f64 {
        let total = self.total.saturating_sub(before.total);
        let busy = self.busy.saturating_sub(before.busy);
        if total == 0 {
            0.0
        } else {
            (busy as f64 / total as f64).min(1.0)
        }
    }
}

/// The machine's memory; taken is what is not available without swapping.
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
    Some(Pool {
        total,
        used: total.saturating_sub(bytes("MemAvailable:")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilization_is_the_share_of_ticks_not_idle() {
        let before = Processor::parse("cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1\n").unwrap();
        assert_eq!(
            before,
            Processor {
                busy: 20,
                total: 100
            }
        );
        let after = Processor {
            busy: 50,
            total: 200,
        };
        assert_eq!(after.utilization_since(before), 0.3);
        assert_eq!(before.utilization_since(before), 0.0);
    }

    #[test]
    fn memory_taken_is_what_is_not_available() {
        let pool = parse_memory("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n");
        assert_eq!(
            pool,
            Some(Pool {
                total: 102_400,
                used: 61_440
            })
        );
    }
}
