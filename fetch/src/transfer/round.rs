//! One download of a listing: coordinates the reads until all objects are complete.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::disk::{self, Disk, FILES, blocking};
use super::journal::{self, Journal};
use super::observer::{INTERVAL, Observer};
use super::plan::{self, Piece, Plan};
use super::read::{Outcome, Reader};
use super::request_size::RequestSize;
use super::{CHANGED, Transfer, delay};
use crate::error::FetchError;
use crate::store::{Body, Object, Store, StoreError};

/// Maximum number of reads at the same time: enough to saturate an object store's network.
const PARALLEL: usize = 16;

/// A download of these versions of the objects.
pub(super) struct Round<'a, S> {
    transfer: &'a Transfer<'a, S>,
    objects: &'a [Object],
    disk: Disk,
    /// Received bytes of each slot.
    counts: Vec<AtomicU64>,
}

/// Reason why a round ended early.
pub(super) enum Interrupted {
    /// An object changed, as this clause says: the objects must be listed again.
    Changed(String),
    /// Every attempt would fail in the same way.
    Fatal(FetchError),
}

/// End of an action of a round.
enum Event {
    Read(Piece, Outcome),
    /// The delay of a piece after a failure is over.
    Due(Piece),
    /// The file of an object has its size and digest.
    Checked(Result<(), FetchError>),
}

impl From<FetchError> for Interrupted {
    fn from(error: FetchError) -> Self {
        Self::Fatal(error)
    }
}

impl<'a, S: Store> Round<'a, S> {
    /// Prepares the working directory: what it has of these versions is kept, everything else is removed.
    pub(super) async fn begin(transfer: &'a Transfer<'a, S>, objects: &'a [Object]) -> Result<Self, FetchError> {
        let (folder, owned) = (transfer.folder.to_owned(), objects.to_vec());
        let (disk, counts) = blocking(move || prepare(&folder, &owned)).await?;
        Ok(Self { transfer, objects, disk, counts: counts.into_iter().map(AtomicU64::new).collect() })
    }

    /// Downloads what is missing.
    pub(super) async fn run(&self, observer: &mut Observer<'_>) -> Result<(), Interrupted> {
        let (opened, mut openings) = mpsc::channel(PARALLEL);
        let reader = Reader {
            store: self.transfer.store,
            objects: self.objects,
            disk: &self.disk,
            counts: &self.counts,
            limit: self.transfer.limits.download,
            request_size: RequestSize::new(),
            opened,
        };
        let mut work = Work::new(self, &reader);
        let mut ticks = tokio::time::interval(INTERVAL);
        while work.start_more() {
            tokio::select! {
                biased;
                Some(object) = openings.recv() => {
                    observer.began();
                    work.plan.ranges_work(object);
                }
                Some(event) = work.running.next() => work.handle(event, observer).await?,
                _ = ticks.tick() => observer.progressed(self.received(), self.disk.total()),
            }
        }
        if !work.plan.is_finished() {
            let reason = "the download ended before all files were complete";
            return Err(Interrupted::Fatal(self.transfer.gave_up(reason)));
        }
        observer.finished(self.received(), self.disk.total());
        Ok(())
    }

    fn received(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl<S> Drop for Round<'_, S> {
    /// Writes that are still running must not reach the files of another round.
    fn drop(&mut self) {
        self.disk.close();
    }
}

/// The actions of a round that wait or run.
struct Work<'r, S> {
    round: &'r Round<'r, S>,
    reader: &'r Reader<'r, S>,
    plan: Plan,
    /// Objects that need only their size and digest checked, with their sizes.
    unchecked: VecDeque<(usize, u64)>,
    running: FuturesUnordered<BoxFuture<'r, Event>>,
}

impl<'r, S: Store> Work<'r, S> {
    fn new(round: &'r Round<'r, S>, reader: &'r Reader<'r, S>) -> Self {
        let counts: Vec<_> = round.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let plan = Plan::new(round.objects, &counts);
        let complete = (0..round.objects.len()).filter(|object| plan.is_complete(*object));
        let unchecked = complete.map(|object| (object, round.objects[object].size.unwrap_or(0))).collect();
        Self { round, reader, plan, unchecked, running: FuturesUnordered::new() }
    }

    /// Starts as many actions as may run at the same time. Returns false if none runs or waits.
    fn start_more(&mut self) -> bool {
        while self.running.len() < PARALLEL {
            if let Some((object, size)) = self.unchecked.pop_front() {
                self.check(object, size);
            } else if let Some(piece) = self.plan.next() {
                self.read(piece, None);
            } else {
                break;
            }
        }
        !self.running.is_empty()
    }

    fn read(&self, piece: Piece, body: Option<Body>) {
        let reader = self.reader;
        self.running.push(Box::pin(async move {
            let outcome = reader.read(&piece, body).await;
            Event::Read(piece, outcome)
        }));
    }

    fn check(&self, object: usize, size: u64) {
        let round = self.round;
        self.running.push(Box::pin(async move { Event::Checked(round.check(object, size).await) }));
    }

    async fn handle(&mut self, event: Event, observer: &mut Observer<'_>) -> Result<(), Interrupted> {
        match event {
            Event::Due(piece) => self.read(piece, None),
            Event::Checked(checked) => checked?,
            Event::Read(piece, Outcome::Complete(end)) => {
                self.plan.completed(&piece);
                if self.plan.is_complete(piece.object) {
                    let size = self.round.objects[piece.object].size.unwrap_or(end);
                    self.unchecked.push_back((piece.object, size));
                }
            }
            Event::Read(piece, Outcome::Whole(body)) => self.stream(piece, body, observer).await?,
            Event::Read(piece, Outcome::Failed(error, done)) => self.retry(piece, done, error, observer)?,
        }
        Ok(())
    }

    /// Reads the whole object in one stream, because the store ignores ranges.
    async fn stream(&mut self, piece: Piece, body: Body, observer: &mut Observer<'_>) -> Result<(), Interrupted> {
        let object = &self.round.objects[piece.object];
        let Some(stream) = self.plan.stream(&piece, object) else {
            let error = StoreError::retry("the server ignored a range, which it had supported before");
            let done = piece.done;
            return self.retry(piece, done, error, observer);
        };
        let slots = stream.slot..stream.slot + plan::slots(object);
        for slot in slots.clone() {
            self.round.counts[slot].store(0, Ordering::Relaxed);
        }
        self.round.disk.forget(slots).await?;
        self.read(stream, Some(body));
        Ok(())
    }

    /// Schedules the next attempt of a piece.
    fn retry(
        &self,
        piece: Piece,
        done: u64,
        error: StoreError,
        observer: &mut Observer<'_>,
    ) -> Result<(), Interrupted> {
        let transfer = self.round.transfer;
        let (reason, after) = match error {
            StoreError::Fatal(error) => return Err(Interrupted::Fatal(error)),
            StoreError::Changed => return Err(Interrupted::Changed(CHANGED.to_owned())),
            StoreError::Retry { reason, after } => (reason, after),
        };
        let piece = Plan::failed(piece, done);
        let error = transfer.gave_up(&reason);
        if piece.failures >= transfer.limits.attempts {
            return Err(Interrupted::Fatal(error));
        }
        observer.failed(&error);
        let delay = delay(piece.failures, after);
        self.running.push(Box::pin(async move {
            tokio::time::sleep(delay).await;
            Event::Due(piece)
        }));
        Ok(())
    }
}

impl<S: Store> Round<'_, S> {
    /// Gives a complete file its size, and checks its digest. A file with another digest is removed, because resuming
    /// would not repair it.
    async fn check(&self, object: usize, size: u64) -> Result<(), FetchError> {
        let (index, object) = (object, &self.objects[object]);
        let path = self.disk.complete(object.path.as_path(), size).await?;
        let Some(digest) = object.digest.clone() else {
            return Ok(());
        };
        let uri = self.transfer.uri.to_owned();
        let checked = blocking(move || digest.check(&path, &uri).inspect_err(|_| drop(fs::remove_file(&path)))).await;
        if checked.is_err() {
            let first: usize = self.objects[..index].iter().map(plan::slots).sum();
            self.disk.forget(first..first + plan::slots(object)).await?;
        }
        checked
    }
}

fn prepare(folder: &Path, objects: &[Object]) -> Result<(Disk, Vec<u64>), FetchError> {
    let files = folder.join(FILES);
    let mut counts = match journal::resume(folder, objects) {
        Some((counts, stale)) => {
            for path in stale {
                let _ = fs::remove_file(files.join(path));
            }
            counts
        }
        None => {
            let _ = fs::remove_dir_all(&files);
            vec![0; objects.iter().map(plan::slots).sum()]
        }
    };
    fs::create_dir_all(&files).map_err(FetchError::file(&files))?;
    disk::forget_lost(&files, objects, &mut counts);
    let total = objects.iter().map(|object| object.size).sum::<Option<u64>>();
    let missing = total.unwrap_or(0).saturating_sub(counts.iter().sum());
    disk::check_room(folder, missing, total)?;
    let journal = Journal::create(folder, objects, &counts).map_err(FetchError::file(folder))?;
    Ok((Disk::new(folder, journal, total), counts))
}
