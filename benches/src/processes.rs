//! CPU time and context switches of processes, read from /proc.

use std::fs;

use anyhow::Context;

/// CPU time and context switches of a process so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time of all threads in seconds.
    pub(crate) cpu: f64,
    /// Number of voluntary context switches.
    pub(crate) switches: u64,
    /// Number of involuntary context switches.
    pub(crate) preemptions: u64,
}

impl Usage {
    /// Reads the usage of a process. The CPU time includes threads that have ended.
    ///
    /// # Errors
    /// Fails if the process does not exist.
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let stat =
            fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("there is no process {pid}"))?;
        // The process name in front may contain spaces and brackets.
        let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Indices are counted from the state, which is field 3; utime is field 14, stime field 15.
        let ticks = |i: usize| fields.get(i).and_then(|text| text.parse::<f64>().ok());
        let cpu = ticks(11).zip(ticks(12)).context("/proc/PID/stat")?;
        let mut usage = Self { cpu: (cpu.0 + cpu.1) / ticks_per_second(), ..Self::default() };
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end before its file is read.
            let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
            usage.switches += field(&status, "voluntary_ctxt_switches:");
            usage.preemptions += field(&status, "nonvoluntary_ctxt_switches:");
        }
        Ok(usage)
    }

    /// Reads the CPU time of the whole machine in seconds.
    ///
    /// # Errors
    /// Fails if /proc/stat cannot be read.
    pub(crate) fn machine() -> anyhow::Result<f64> {
        let stat = fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().context("/proc/stat")?;
        let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).filter_map(|text| text.parse().ok()).collect();
        // Fields 4 and 5 are idle time.
        let busy = ticks.iter().enumerate().filter(|(i, _)| ![3, 4].contains(i));
        Ok(busy.map(|(_, ticks)| ticks).sum::<f64>() / ticks_per_second())
    }
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Returns the ticks per second of times in /proc (USER_HZ), which is 100 on every Linux.
fn ticks_per_second() -> f64 {
    100.0
}
