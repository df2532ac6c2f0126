//! Limits of a child process: its memory, the time of each run, and a lifetime no longer than its fork server's.

#![expect(unsafe_code, reason = "sets the timer that ends a run without end")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};

use crate::stopwatch;

/// CPU time limit of a run before any run has succeeded: it includes the first use of the weights, compilation and a
/// slow row.
const BEFORE_ANY: Duration = Duration::from_secs(20);

/// CPU time that any run may take.
const LEAST: Duration = Duration::from_secs(2);

/// Time limit of a row, as a multiple of the longest row so far. A row of twice the size in three dimensions takes
/// eight times as long. In attention, twice the size in one dimension takes four times as long.
const TIMES: u32 = 16;

/// Fraction of the available memory that a child may take.
const MEMORY: f64 = 0.75;

/// Least memory limit beyond the memory already in use, in bytes: less would not suffice to try any model.
const LEAST_MEMORY: u64 = 256 << 20;

/// Nanoseconds of the longest row so far; 1 before any run has succeeded, 0 in a process that is not a child.
static LONGEST_ROW: AtomicU64 = AtomicU64::new(0);

/// Number of threads per operation, which use CPU time in parallel.
static THREADS: AtomicU64 = AtomicU64::new(1);

/// Applies the limits to this process, a new child.
pub(super) fn apply() {
    LONGEST_ROW.store(1, Ordering::Relaxed);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The fork server may have ended before the signal was requested.
    if getppid().is_none_or(|parent| parent.is_init()) {
        std::process::abort();
    }
    limit(Resource::Core, 0);
    // If memory is short nevertheless, the kernel kills this process first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Limits the memory of this process. Not for processes that use a GPU, whose driver maps more memory than it uses.
pub(crate) fn limit_memory() {
    if let Some(available) = available() {
        let most = (available as f64 * MEMORY) as u64;
        let most = taken().saturating_add(most.max(LEAST_MEMORY));
        limit(Resource::Data, most);
    }
}

/// Sets the number of threads per operation.
pub(crate) fn set_threads(count: i32) {
    THREADS.store(u64::try_from(count).unwrap_or(1).max(1), Ordering::Relaxed);
}

/// Performs a run of `rows` rows. In a child, a run that takes too long ends the process with `SIGPROF`.
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

/// Calls `run`. In a child process, a run that takes more than `time` of CPU time per thread ends the process with
/// `SIGPROF`.
pub(crate) fn limited_to<T>(time: Duration, run: impl FnOnce() -> T) -> T {
    if LONGEST_ROW.load(Ordering::Relaxed) == 0 {
        return run();
    }
    set_timer(time * THREADS.load(Ordering::Relaxed) as u32);
    let done = run();
    set_timer(Duration::ZERO);
    done
}

/// Returns the CPU time limit of a run, derived from the longest row so far.
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

/// Sets or stops the timer of the process's CPU time. When it expires, `SIGPROF` ends the process.
fn set_timer(time: Duration) {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval {
        it_interval: zero,
        it_value: libc::timeval {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_usec: i64::from(time.subsec_micros()),
        },
    };
    // SAFETY: `timer` is valid, and a null pointer means that the old value is not returned.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, ptr::null_mut()) };
}

/// Returns the bytes of this process that count against its data limit.
fn taken() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    number(&status, "VmData:").unwrap_or(0) << 10
}

/// Returns the bytes that this process may take before the machine or its container has none left.
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

/// Returns the number after a name at the start of a line.
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
    fn a_process_that_is_not_a_child_has_no_limit() {
        assert_eq!(limited(1, || Ok::<_, ()>(5)), Ok(5));
        assert_eq!(LONGEST_ROW.load(Ordering::Relaxed), 0);
    }
}
