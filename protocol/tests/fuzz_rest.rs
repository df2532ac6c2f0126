//! Deterministic fuzzer of the HTTP bodies: a seeded generator mutates a corpus. Every decoder must return without
//! panic or delay, and every decoded body must encode and decode to the same tensors.
//!
//! Runs for `WEIR_FUZZ_SECONDS` (5 if unset); a failure prints the input that caused it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "fuzz/corpus.rs"]
mod corpus;
#[path = "fuzz/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use corpus::{Corpus, Rng};
use targets::{FuzzTarget, TARGETS};

/// Maximum CPU time for an input of a few kilobytes. Only a decoder whose time is more than linear exceeds it.
const TOO_SLOW: Duration = Duration::from_secs(2);

/// Checks that every seed decodes. Mutations of an invalid seed would only test the first check.
#[test]
fn seeds_are_accepted() {
    for target in TARGETS {
        for seed in target.seeds {
            let outcome = (target.check)(seed);
            assert!(outcome.contains("ok"), "{}: {outcome}", target.name);
        }
    }
}

#[test]
fn every_body_is_decoded_or_refused() {
    let budget = seconds();
    // Each target has its own thread, so that it gets the whole time and an endless loop fails the test instead of
    // hanging it.
    let runners = TARGETS.iter().map(|target| {
        let (report, finished) = std::sync::mpsc::sync_channel(1);
        let runner = std::thread::spawn(move || {
            let runs = run(target, budget);
            let _ = report.send(());
            runs
        });
        (target, runner, finished)
    });
    for (target, runner, finished) in runners.collect::<Vec<_>>() {
        let name = target.name;
        let waited = finished.recv_timeout(budget + Duration::from_secs(60));
        assert!(waited.is_ok() || runner.is_finished(), "{name}: a decoder hangs");
        match runner.join() {
            Ok(runs) => println!("{name}: {runs} inputs in {budget:?}, no finding"),
            Err(finding) => std::panic::resume_unwind(finding),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to fuzz is the caller's choice")]
fn seconds() -> Duration {
    let seconds = std::env::var("WEIR_FUZZ_SECONDS");
    Duration::from_secs(seconds.map_or(5, |text| text.parse().unwrap()))
}

#[expect(clippy::disallowed_methods, reason = "bounds the run")]
fn run(target: &FuzzTarget, budget: Duration) -> u64 {
    let mut rng = Rng::new(0x5eed_0f3e_1234_5678);
    let mut corpus = Corpus::new(target.seeds);
    let begin = Instant::now();
    let mut runs = 0;
    while begin.elapsed() < budget {
        let input = corpus.mutate(&mut rng);
        let start = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.check)(&input)));
        let shown = || String::from_utf8_lossy(&input).escape_debug().to_string();
        match outcome {
            Ok(outcome) => corpus.learn(input.clone(), &outcome),
            Err(_) => panic!("{}: {} (bytes {input:?})", target.name, shown()),
        }
        let took = processor_time().saturating_sub(start);
        assert!(took < TOO_SLOW, "{} took {took:?}: {}", target.name, shown());
        runs += 1;
    }
    runs
}

/// Returns the CPU time of this thread, which does not include the time that the thread waits on a busy machine.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
