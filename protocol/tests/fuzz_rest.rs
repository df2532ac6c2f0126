//! A deterministic fuzzer of the HTTP bodies: a seeded generator mutates a corpus, every decoder must
//! answer without panic or delay, and whatever decodes must survive being encoded and decoded again.
//!
//! Runs for `WEIR_FUZZ_SECONDS` (5 where unset); a finding prints the input that caused it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "fuzz/corpus.rs"]
mod corpus;
#[path = "fuzz/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use corpus::{Corpus, Rng};
use targets::{TARGETS, Target};

/// No input here has more than a few kilobytes; a decoder that needs this long is not linear.
const TOO_SLOW: Duration = Duration::from_secs(2);

/// Mutations of something that never decodes would only ever test the first check.
#[test]
fn seeds_are_taken() {
    for target in TARGETS {
        for seed in target.seeds {
            let answer = (target.check)(seed);
            assert!(answer.contains("ok"), "{}: {answer}", target.name);
        }
    }
}

#[test]
fn every_body_is_answered() {
    let budget = seconds();
    // Threads of their own: each target has the whole time, and an endless loop fails the test
    // instead of hanging it.
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
        assert!(
            waited.is_ok() || runner.is_finished(),
            "{name}: a decoder hangs"
        );
        match runner.join() {
            Ok(runs) => println!("{name}: {runs} inputs in {budget:?}, no finding"),
            Err(finding) => std::panic::resume_unwind(finding),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long to fuzz is the caller's choice"
)]
fn seconds() -> Duration {
    let seconds = std::env::var("WEIR_FUZZ_SECONDS");
    Duration::from_secs(seconds.map_or(5, |text| text.parse().unwrap()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "bounds the run and times each input"
)]
fn run(target: &Target, budget: Duration) -> u64 {
    let mut rng = Rng::new(0x5eed_0f3e_1234_5678);
    let mut corpus = Corpus::new(target.seeds);
    let begin = Instant::now();
    let mut runs = 0;
    while begin.elapsed() < budget {
        let input = corpus.mutate(&mut rng);
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.check)(&input)));
        let shown = || String::from_utf8_lossy(&input).escape_debug().to_string();
        match outcome {
            Ok(outcome) => corpus.learn(input.clone(), &outcome),
            Err(_) => panic!("{}: {} (bytes {input:?})", target.name, shown()),
        }
        let took = start.elapsed();
        assert!(
            took < TOO_SLOW,
            "{} took {took:?}: {}",
            target.name,
            shown()
        );
        runs += 1;
    }
    runs
}
