//! Benchmarks of the queue: the policy alone, then with its lock, uncontended and contended.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use weir_batcher::{Assembler, Batcher, Item, Next, Policy, Terms, Ticket};

/// Number of rows in a full batch.
const FULL: usize = 32;

/// Numbers of threads that submit at once.
const SUBMITTERS: [usize; 3] = [1, 2, 4];

struct Row;

impl Item for Row {
    type Group = ();

    fn weight(&self) -> usize {
        1
    }

    fn group(&self) {}
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    policy(&mut criterion);
    alone(&mut criterion);
    contended(&mut criterion);
    criterion.final_summary();
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time: this is its clock")]
fn now() -> Instant {
    Instant::now()
}

/// Measures admitting a batch row by row and forming it, without a running clock.
fn policy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy");
    let at = now();
    for rows in [1, FULL] {
        let mut assembler = Assembler::new(Policy::new(FULL));
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(BenchmarkId::new("admit and form", rows), |bencher| {
            bencher.iter(|| {
                for _ in 0..rows {
                    black_box(assembler.admit(Row, Terms::default(), at).is_ok());
                }
                let Next::Run(batch) = assembler.next(at) else {
                    unreachable!("rows are queued and a device is free");
                };
                assembler.finished(batch.number, at);
                batch.members.len()
            });
        });
    }
}

/// Measures submitting, pulling and answering on one thread, without wake-ups or contention.
fn alone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batcher");
    for rows in [1, FULL] {
        let batcher: Batcher<Row, ()> = Batcher::new(Policy::new(FULL), Arc::new(()));
        let mut worker = batcher.worker();
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(BenchmarkId::new("submit and pull", rows), |bencher| {
            bencher.iter(|| {
                let tickets: Vec<Ticket<()>> =
                    (0..rows).map(|_| batcher.submit(Row, Terms::default()).unwrap()).collect();
                let work = worker.pull().unwrap();
                let answers = vec![(); work.count()];
                work.answer(answers);
                tickets
            });
        });
    }
}

/// Measures rows submitted and awaited on several threads, with the device on another one.
fn contended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batcher");
    for submitters in SUBMITTERS {
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("threads", submitters), |bencher| {
            bencher.iter_custom(|rows| race(submitters, rows));
        });
    }
}

/// Returns the time for `rows` rows, split over the submitters, each of which keeps a full batch in flight.
fn race(submitters: usize, rows: u64) -> Duration {
    let batcher: Batcher<Row, ()> = Batcher::new(Policy::new(FULL), Arc::new(()));
    let mut worker = batcher.worker();
    let device = thread::spawn(move || {
        while let Some(work) = worker.pull() {
            let answers = vec![(); work.count()];
            work.answer(answers);
        }
    });
    let share = rows.div_ceil(submitters as u64);
    let start = now();
    let threads: Vec<_> = (0..submitters)
        .map(|_| {
            let batcher = batcher.clone();
            thread::spawn(move || submit(&batcher, share))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let elapsed = now() - start;
    batcher.close();
    device.join().unwrap();
    elapsed
}

fn submit(batcher: &Batcher<Row, ()>, rows: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut left = rows;
        while left > 0 {
            let count = left.min(FULL as u64);
            let tickets: Vec<Ticket<()>> = (0..count).map(|_| batcher.submit(Row, Terms::default()).unwrap()).collect();
            for ticket in tickets {
                ticket.await.unwrap();
            }
            left -= count;
        }
    });
}
