//! The crate's only clocks: wall time of parts of a run, and CPU time of a thread or of the process.

#![expect(unsafe_code, reason = "asks the kernel for a thread's processor time")]

use std::time::{Duration, Instant};

/// A stopwatch for consecutive parts of a run.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    lap: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { lap: now() }
    }

    /// Returns the time since the last lap, or since the start.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = now();
        let lap = now - self.lap;
        self.lap = now;
        lap
    }
}

/// Returns the CPU time of the calling thread. Unlike wall time, it does not grow while other threads have the CPU.
pub(crate) fn thread_time() -> Duration {
    processor_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of all threads of the process.
pub(crate) fn process_time() -> Duration {
    processor_time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn processor_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    unsafe { libc::clock_gettime(clock, &mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[expect(clippy::disallowed_methods, reason = "durations are reported, and decide nothing")]
fn now() -> Instant {
    Instant::now()
}
