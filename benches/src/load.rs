//! Runs the load: connections, schedule, warm-up and measurement.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::args::{Args, Wait};
use crate::clock::Timer;
use crate::connection::Connection;
use crate::expectation::Expectation;
use crate::report::{Report, Sample};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::tensor::{Tensor, TensorFile};
use crate::{clock, payload};

/// Maximum time for responses after the end of the measurement.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of responses per element-by-element comparison: large enough that comparing does not affect the client's CPU
/// time.
const COMPARE_EVERY: u64 = 1024;

/// State shared by all connections.
struct Shared {
    request: Bytes,
    expectation: Expectation,
    tally: RefCell<Tally>,
    /// Schedule of an open loop, locked by the connection that waits until the next request is due; `None` in a closed
    /// loop.
    schedule: Option<Mutex<(Schedule, Timer)>>,
}

/// Runs the load that the arguments describe.
///
/// # Errors
/// Fails if tensors cannot be read, or if the server does not respond or its first response is wrong.
pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let (warm_up, duration) = args.times()?;
    ensure!(args.rate.is_none_or(|rate| rate > 0.0), "--rate must be positive");
    let request = payload::build(args.protocol, &args.model, &read(&args.inputs)?);
    let mut connections = Vec::new();
    for _ in 0..args.connections {
        connections.push(Connection::open(args).await?);
    }
    let expectation = first_response(args, &mut connections[0], &request).await?;
    let start = clock::now();
    let shared = Rc::new(Shared {
        request,
        expectation,
        tally: RefCell::new(Tally::new(start + warm_up, duration)?),
        schedule: args.rate.map(|rate| open_loop(args, start, rate)).transpose()?,
    });
    measure(args, &shared, connections).await
}

fn open_loop(args: &Args, start: Instant, rate: f64) -> anyhow::Result<Mutex<(Schedule, Timer)>> {
    let timer = match args.wait {
        Wait::Poll => Timer::Poll,
        Wait::Timer => Timer::kernel()?,
    };
    let schedule = Schedule::new(start, rate, args.arrivals, args.seed);
    Ok(Mutex::new((schedule, timer)))
}

async fn first_response(args: &Args, connection: &mut Connection, request: &Bytes) -> anyhow::Result<Expectation> {
    let expected = read(&args.expected)?;
    let first = connection.send(request).await.context("the first request")?;
    Expectation::new(args.protocol, expected, args.tolerance, &first).context("the first response")
}

fn read(tensors: &[TensorFile]) -> anyhow::Result<Vec<Tensor>> {
    tensors.iter().map(TensorFile::read).collect()
}

async fn measure(args: &Args, shared: &Rc<Shared>, connections: Vec<Connection>) -> anyhow::Result<Report> {
    let (start, end) = shared.tally.borrow().window;
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::task::spawn_local(work(Rc::clone(shared), connection)))
        .collect();
    tokio::time::sleep_until(start.into()).await;
    let (before, sampled) = (Sample::take(args.pid)?, clock::now());
    tokio::time::sleep_until(end.into()).await;
    let (after, elapsed) = (Sample::take(args.pid)?, sampled.elapsed());
    finish(shared, tasks).await;
    let tally = Tally::new(start, end - start)?;
    Ok(Report { tally: shared.tally.replace(tally), before, after, elapsed })
}

/// Waits for the requests in flight; a missing response counts as an error.
async fn finish(shared: &Shared, tasks: Vec<tokio::task::JoinHandle<()>>) {
    let deadline = tokio::time::Instant::from_std(clock::now() + DRAIN_TIMEOUT);
    for mut task in tasks {
        if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
            task.abort();
            let error = anyhow::anyhow!("no response within {DRAIN_TIMEOUT:?} of the end");
            shared.tally.borrow_mut().failed(&error);
        }
    }
}

/// Sends one connection's requests until the window ends or one of them fails.
async fn work(shared: Rc<Shared>, mut connection: Connection) {
    if let Err(error) = shared.send_all(&mut connection).await {
        shared.tally.borrow_mut().failed(&error);
    }
}

impl Shared {
    /// Sends requests until the window ends.
    async fn send_all(&self, connection: &mut Connection) -> anyhow::Result<()> {
        let end = self.tally.borrow().window.1;
        loop {
            let scheduled = self.next_send().await?;
            if scheduled >= end {
                return Ok(());
            }
            self.send_once(connection, scheduled).await?;
        }
    }

    /// Waits until the next request is due, and returns the scheduled time.
    async fn next_send(&self) -> anyhow::Result<Instant> {
        let Some(schedule) = &self.schedule else {
            return Ok(clock::now());
        };
        let (schedule, timer) = &mut *schedule.lock().await;
        let at = schedule.take();
        // Nothing is sent after the end of the window, so there is nothing to wait for.
        if at < self.tally.borrow().window.1 {
            timer.wait_until(at).await?;
        }
        Ok(at)
    }

    /// Sends one request and checks the response.
    async fn send_once(&self, connection: &mut Connection, scheduled: Instant) -> anyhow::Result<()> {
        let response = connection.send(&self.request).await?;
        let now = clock::now();
        let mut tally = self.tally.borrow_mut();
        let moment = if self.schedule.is_some() { scheduled } else { now };
        tally.record(moment, now - scheduled);
        tally.responses += 1;
        ensure!(
            self.expectation.has_length_of(&response),
            "a response has {} bytes, unlike the first",
            response.body.len()
        );
        if tally.responses.is_multiple_of(COMPARE_EVERY) {
            self.expectation.compare(&response)?;
        }
        Ok(())
    }
}
