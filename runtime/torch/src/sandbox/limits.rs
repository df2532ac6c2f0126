//! Limits of a child: its memory, the time of each run, and a life no longer than that of its fork server.

#![expect(unsafe_code, reason = "sets the timer that ends a run without end")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};

use crate::stopwatch;

/// Processor time of a run before any has succeeded: loads of weights, compilation and a slow row.
const BEFORE_ANY: Duration = Duration::from_secs(20);

/// Processor time that any run may take.
const LEAST: Duration = Duration::from_secs(2);

/// Longest time of a row, in times of the longest so far: twice the size in three dimensions takes eight times as long,
/// and attention the square of that in one.
const TIMES: u32 = 16;

/// Part of the available memory that a child may take.
const MEMORY: f64 = 0.75;

/// Bytes beside the weights that a model can be tried in at all.
const LEAST_MEMORY: u64 = 256 << 20;

/// Nanoseconds of the longest row so far plus one; 0 in a process that is no child.
static LONGEST_ROW: AtomicU64 = AtomicU64::new(0);

/// Threads of an operation, which take processor time at once.
static THREADS: AtomicU64 = AtomicU64::new(1);

/// Applies the limits to this process.
pub(super) fn apply() {
    LONGEST_ROW.store(1, Ordering::Relaxed);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The fork server may have ended before that.
    if getppid().is_none_or(|parent| parent.is_init()) {
        std::process::abort();
    }
    limit(Resource::Core, 0);
    // The kernel ends this process first if memory is short all the same.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Limits the memory of this process. A driver of GPUs maps more than it takes, so its processes have no such limit.
pub(crate) fn limit_memory() {
    if let Some(available) = available() {
        let most = (available as f64 * MEMORY) as u64;
        let most = taken().saturating_add(most.max(LEAST_MEMORY));
        limit(Resource::Data, most);
    }
}

/// Sets the number of threads of an operation.
pub(crate) fn set_threads(count: i32) {
    THREADS.store(u64::try_from(count).unwrap_or(1).max(1), Ordering::Relaxed);
}

/// Makes a run of that many rows, which ends a child by `SIGPROF` if it takes too long.
pub(crate) fn limited<T, E>(rows: usize, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let longest = match LONGEST_ROW.load(Ordering::Relaxed) {
        0 => return run(),
        1 => None,
        nanoseconds => Some(Duration::from_nanos(nanoseconds)),
    };
    let threads = THREADS.load(Ordering::Relaxed) as u32;
    set_timer(longest_run(longest, rows) * threads);
    let before = stopwatch::process_time();
    let done = run();
    set_timer(Duration::ZERO);
    if done.is_ok() {
        let spent = stopwatch::process_time().saturating_sub(before) / rows.max(1) as u32;
        let nanoseconds = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        LONGEST_ROW.fetch_max(nanoseconds.max(2), Ordering::Relaxed);
    }
    done
}

/// The processor time of a run, by that of the longest row so far.
fn longest_run(longest_row: Option<Duration>, rows: usize) -> Duration {
    match longest_row {
        None => BEFORE_ANY,
        Some(row) => LEAST + row * TIMES * u32::try_from(rows.max(1)).unwrap_or(u32::MAX),
    }
}

fn limit(resource: Resource, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    let _ = setrlimit(resource, limit);
}

/// Sets the timer of the process's processor time, or stops it. When it expires, the process ends by `SIGPROF`.
fn set_timer(time: Duration) {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval {
        it_interval: zero,
        it_value: libc::timeval {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_usec: i64::from(time.subsec_micros()),
        },
    };
    // SAFETY: `timer` is valid, and the old value is not asked for.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, ptr::null_mut()) };
}

/// Bytes of the process that count against its limit of data.
fn taken() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    number(&status, "VmData:").unwrap_or(0) << 10
}

/// Bytes that this process may take before the machine, or its container, has none left.
fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = number(&read("/proc/meminfo")?, "MemAvailable:")? << 10;
    let container = read("/sys/fs/cgroup/memory.max").zip(read("/sys/fs/cgroup/memory.current"));
    let container = container.and_then(|(most, current)| {
        let reclaimable = read("/sys/fs/cgroup/memory.stat");
        let reclaimable = reclaimable.and_then(|stat| number(&stat, "inactive_file")).unwrap_or(0);
        let most: u64 = most.trim().parse().ok()?;
        let current: u64 = current.trim().parse().ok()?;
        Some(most.saturating_sub(current.saturating_sub(reclaimable)))
    });
    Some(container.map_or(machine, |container| container.min(machine)))
}

/// The number after a name at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_take_longer_where_rows_do() {
        let ms = Duration::from_millis;
        for (longest, rows, expected) in [
            (None, 1, BEFORE_ANY),
            (None, 32, BEFORE_ANY),
            (Some(ms(1)), 1, ms(2016)),
            (Some(ms(100)), 32, ms(2000 + 100 * 16 * 32)),
        ] {
            assert_eq!(longest_run(longest, rows), expected, "{longest:?} {rows}");
        }
    }

    #[test]
    fn numbers_are_read_by_their_names() {
        let text = "MemTotal: 100 kB\nMemAvailable:  40 kB\nodd\ninactive_file 7\n";
        assert_eq!(number(text, "MemAvailable:"), Some(40));
        assert_eq!(number(text, "inactive_file"), Some(7));
        assert_eq!(number(text, "odd"), None);
        assert_eq!(number(text, "missing"), None);
    }

    #[test]
    fn what_is_no_child_has_no_limit() {
        assert_eq!(limited(1, || Ok::<_, ()>(5)), Ok(5));
        assert_eq!(LONGEST_ROW.load(Ordering::Relaxed), 0);
    }
}
