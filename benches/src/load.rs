//! The run itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::args::{Args, Wait};
use crate::clock::Alarm;
use crate::connection::Connection;
use crate::expectation::Expectation;
use crate::report::{Report, Sample};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::tensor::{Description, Tensor};
use crate::{clock, payload};

/// How long answers may take to come after an open loop's last request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of so many answers one is compared with what is expected, element by element: too few to show in
/// the client's processor time.
const COMPARED: u64 = 1024;

/// What all connections share.
struct Shared {
    request: Bytes,
    expectation: Expectation,
    tally: RefCell<Tally>,
    /// In an open loop; held by the one connection that waits for the next moment.
    schedule: Option<Mutex<(Schedule, Alarm)>>,
}

/// Runs what the arguments say.
///
/// # Errors
/// Tensors that cannot be read, a server that does not answer, or whose first answer is wrong.
pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let (warm_up, duration) = args.times()?;
    ensure!(
        args.rate.is_none_or(|rate| rate > 0.0),
        "--rate is not positive"
    );
    let request = payload::build(args.protocol, &args.model, &read(&args.inputs)?);
    let mut connections = Vec::new();
    for _ in 0..args.connections {
        connections.push(Connection::open(args).await?);
    }
    let expectation = first_answer(args, &mut connections[0], &request).await?;
    let start = clock::now();
    let shared = Rc::new(Shared {
        request,
        expectation,
        tally: RefCell::new(Tally::new(start + warm_up, duration)?),
        schedule: args.rate.map(|rate| open(args, start, rate)).transpose()?,
    });
    measure(args, &shared, connections).await
}

fn open(args: &Args, start: Instant, rate: f64) -> anyhow::Result<Mutex<(Schedule, Alarm)>> {
    let alarm = match args.wait {
        Wait::Poll => Alarm::Poll,
        Wait::Timer => Alarm::timer()?,
    };
    let schedule = Schedule::new(start, rate, args.arrivals, args.seed);
    Ok(Mutex::new((schedule, alarm)))
}

async fn first_answer(
    args: &Args,
    connection: &mut Connection,
    request: &Bytes,
) -> anyhow::Result<Expectation> {
    let expected = read(&args.expected)?;
    let first = connection.ask(request).await.context("the first request")?;
    Expectation::new(args.protocol, expected, args.tolerance, &first).context("the first answer")
}

fn read(tensors: &[Description]) -> anyhow::Result<Vec<Tensor>> {
    tensors.iter().map(Description::read).collect()
}

async fn measure(
    args: &Args,
    shared: &Rc<Shared>,
    connections: Vec<Connection>,
) -> anyhow::Result<Report> {
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
    Ok(Report {
        tally: shared.tally.replace(tally),
        before,
        after,
        elapsed,
    })
}

/// Waits for what is under way; a request that stays without answer is an error.
async fn finish(shared: &Shared, tasks: Vec<tokio::task::JoinHandle<()>>) {
    let deadline = tokio::time::Instant::from_std(clock::now() + PATIENCE);
    for mut task in tasks {
        if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
            task.abort();
            let error = anyhow::anyhow!("no answer within {PATIENCE:?} of the end");
            shared.tally.borrow_mut().failed(&error);
        }
    }
}

/// One connection's requests until the window ends, or one of them breaks it.
async fn work(shared: Rc<Shared>, mut connection: Connection) {
    if let Err(error) = shared.ask_on(&mut connection).await {
        shared.tally.borrow_mut().failed(&error);
    }
}

impl Shared {
    /// Asks until the window ends.
    async fn ask_on(&self, connection: &mut Connection) -> anyhow::Result<()> {
        let end = self.tally.borrow().window.1;
        loop {
            let intended = self.turn().await?;
            if intended >= end {
                return Ok(());
            }
            self.once(connection, intended).await?;
        }
    }

    /// Waits until this connection may send, and returns when it was meant to.
    async fn turn(&self) -> anyhow::Result<Instant> {
        let Some(schedule) = &self.schedule else {
            return Ok(clock::now());
        };
        let (schedule, alarm) = &mut *schedule.lock().await;
        let at = schedule.take();
        // Past the end nothing is sent, so there is nothing to wait for.
        if at < self.tally.borrow().window.1 {
            alarm.until(at).await?;
        }
        Ok(at)
    }

    /// Asks once and checks the answer.
    async fn once(&self, connection: &mut Connection, intended: Instant) -> anyhow::Result<()> {
        let answer = connection.ask(&self.request).await?;
        let now = clock::now();
        let mut tally = self.tally.borrow_mut();
        let moment = if self.schedule.is_some() {
            intended
        } else {
            now
        };
        tally.answered(moment, now - intended);
        tally.answers += 1;
        ensure!(
            self.expectation.measures(&answer),
            "an answer has {} bytes, unlike the first",
            answer.body.len()
        );
        if tally.answers.is_multiple_of(COMPARED) {
            self.expectation.compare(&answer)?;
        }
        Ok(())
    }
}
