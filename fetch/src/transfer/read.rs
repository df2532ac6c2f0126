//! Reads one piece of an object, and writes it to disk.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::disk::Disk;
use super::plan::Piece;
use super::request_size::{MeasuredRequest, RequestSize};
use crate::error::FetchError;
use crate::store::{Body, Object, Store, StoreError};

/// Maximum number of chunks that have arrived and are written at once.
const READY_CHUNKS: usize = 4;

/// Reads pieces. Several reads run at the same time.
pub(super) struct Reader<'a, S> {
    pub(super) store: &'a S,
    pub(super) objects: &'a [Object],
    pub(super) disk: &'a Disk,
    /// Received bytes of each slot.
    pub(super) counts: &'a [AtomicU64],
    /// Maximum size of an object in bytes.
    pub(super) limit: u64,
    /// Size of requests for parts of a piece.
    pub(super) request_size: RequestSize,
    /// Channel for the index of an object whose store has answered with the requested bytes.
    pub(super) opened: mpsc::Sender<usize>,
}

/// Result of a read.
pub(super) enum Outcome {
    /// All bytes of the piece are on disk. For an object of unknown size this is its size.
    Complete(u64),
    /// The store ignored the range, and sends the whole object.
    Whole(Body),
    /// The read failed after the piece had this number of received bytes.
    Failed(StoreError, u64),
}

/// Meaning of the head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The bytes begin at this offset, and belong to the piece.
    From(u64),
    /// The store ignored the range.
    Whole,
    /// The object has changed.
    Changed,
    /// The bytes are not the requested ones.
    Other,
}

/// Compares the head of a body with the range that was asked for.
fn judge(body: &Body, object: &Object, piece: &Piece, range: &Range<u64>) -> Answer {
    let differs = |ours: Option<u64>, theirs: Option<u64>| ours.zip(theirs).is_some_and(|(a, b)| a != b);
    let has_other_version = object.version.as_ref().zip(body.version.as_ref()).is_some_and(|(a, b)| a != b);
    if has_other_version || differs(object.size, body.total) {
        return Answer::Changed;
    }
    let size = object.size.unwrap_or(u64::MAX);
    let is_whole_object = piece.bytes == (0..size);
    let ends_in_range = body.end.is_some_and(|end| end <= range.end);
    match body.start {
        start if start == range.start && (is_whole_object || ends_in_range) => Answer::From(start),
        0 if is_whole_object => Answer::From(0),
        0 => Answer::Whole,
        _ => Answer::Other,
    }
}

impl<S: Store> Reader<'_, S> {
    /// Reads a piece, from `body` if the store has already sent it.
    pub(super) async fn read(&self, piece: &Piece, body: Option<Body>) -> Outcome {
        let (mut piece, mut body) = (piece.clone(), body);
        loop {
            match self.request(&piece, body.take()).await {
                Outcome::Complete(end) if end < piece.bytes.end && piece.bytes.end != u64::MAX => {
                    piece.done = end - piece.bytes.start;
                }
                ended => return ended,
            }
        }
    }

    /// Reads the next part of a piece.
    async fn request(&self, piece: &Piece, body: Option<Body>) -> Outcome {
        let object = &self.objects[piece.object];
        let rest = piece.bytes.start + piece.done..piece.bytes.end;
        let mut measured = MeasuredRequest::begin();
        let (range, body) = match body {
            Some(body) => (rest, Ok(body)),
            None => {
                let range = self.part(object, piece, rest);
                (range.clone(), self.store.read(object, range).await)
            }
        };
        measured.answered();
        let body = match body {
            Ok(body) => body,
            Err(error) => return Outcome::Failed(error, piece.done),
        };
        match judge(&body, object, piece, &range) {
            Answer::From(start) => {
                let outcome = self.receive(piece, start..range.end, body).await;
                if let Outcome::Complete(end) = &outcome {
                    self.request_size.observe(&measured, end - start);
                }
                outcome
            }
            Answer::Whole => Outcome::Whole(body),
            Answer::Changed => Outcome::Failed(StoreError::Changed, piece.done),
            Answer::Other => {
                let error = StoreError::retry("the server sent other bytes than were asked for");
                Outcome::Failed(error, piece.done)
            }
        }
    }

    /// Returns the part of a piece that the next request asks for. A piece that is the whole object may be of a store
    /// without ranges, and is not divided.
    fn part(&self, object: &Object, piece: &Piece, rest: Range<u64>) -> Range<u64> {
        let is_whole_object = piece.bytes == (0..object.size.unwrap_or(u64::MAX));
        let end = if is_whole_object { rest.end } else { rest.end.min(rest.start + self.request_size.next()) };
        rest.start..end
    }

    /// Writes the bytes of a body that begins at the start of a range, up to its end.
    async fn receive(&self, piece: &Piece, range: Range<u64>, body: Body) -> Outcome {
        // The coordinator reads this channel as long as reads run.
        let _ = self.opened.send(piece.object).await;
        let mut position = range.start;
        let end = if range.end == u64::MAX { body.total } else { Some(range.end) };
        let received = self.write(piece, &mut position, end, body).await;
        let done = position - piece.bytes.start;
        match received {
            Err(error) => Outcome::Failed(error, done),
            Ok(()) if end.is_some_and(|end| position < end) => {
                Outcome::Failed(StoreError::retry("the connection was closed early"), done)
            }
            Ok(()) => Outcome::Complete(position),
        }
    }

    async fn write(&self, piece: &Piece, position: &mut u64, end: Option<u64>, body: Body) -> Result<(), StoreError> {
        let path = self.objects[piece.object].path.as_path();
        let file = self.disk.open(path).await.map_err(StoreError::Fatal)?;
        let mut batches = body.chunks.ready_chunks(READY_CHUNKS);
        let end = end.unwrap_or(u64::MAX);
        while *position < end
            && let Some(batch) = batches.next().await
        {
            let (chunks, error) = split(batch, end - *position);
            let length: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
            if length > 0 {
                self.check_size(*position + length)?;
                let count = *position + length - piece.bytes.start;
                let written = self.disk.write(&file, chunks, *position, (piece.slot, count)).await;
                written.map_err(StoreError::Fatal)?;
                self.counts[piece.slot].store(count, Ordering::Relaxed);
                *position += length;
            }
            error.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Checks a size that only the download reveals. Sizes in a listing are checked before the download.
    fn check_size(&self, size: u64) -> Result<(), StoreError> {
        if size <= self.limit {
            return Ok(());
        }
        let what = "the size of the download".to_owned();
        Err(StoreError::Fatal(FetchError::TooLarge { what, limit: self.limit }))
    }
}

/// Returns the chunks before the first error, up to a number of bytes, and the error.
fn split(batch: Vec<Result<Bytes, StoreError>>, mut room: u64) -> (Vec<Bytes>, Option<StoreError>) {
    let mut chunks = Vec::with_capacity(batch.len());
    for chunk in batch {
        match chunk {
            Ok(mut bytes) => {
                bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
                room -= bytes.len() as u64;
                chunks.push(bytes);
            }
            Err(error) => return (chunks, Some(error)),
        }
    }
    (chunks, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::PIECE;
    use super::super::journal::Journal;
    use super::super::request_size::SMALLEST;
    use super::*;
    use crate::archive::packing::Packing;
    use crate::limits::Limits;
    use crate::store::RelativePath;

    fn object() -> Object {
        Object {
            path: RelativePath::parse("a").unwrap(),
            key: String::new(),
            size: Some(3 * PIECE),
            version: Some("1".to_owned()),
            digest: None,
            packing: Packing::None,
        }
    }

    fn answer(start: u64, end: Option<u64>, version: &str, (bytes, done): (Range<u64>, u64)) -> Answer {
        let object = object();
        let chunks = futures_util::stream::empty().boxed();
        let body = Body { start, end, total: Some(3 * PIECE), version: Some(version.to_owned()), chunks };
        let range = bytes.start + done..bytes.end;
        let piece = Piece { object: 0, slot: 0, bytes, done, best: done, failures: 0 };
        judge(&body, &object, &piece, &range)
    }

    #[test]
    fn answers_are_compared_with_the_range() {
        let whole = Some(3 * PIECE);
        assert_eq!(answer(7, Some(PIECE), "1", (0..PIECE, 7)), Answer::From(7));
        assert_eq!(answer(0, Some(PIECE), "1", (0..PIECE, 0)), Answer::From(0));
        assert_eq!(answer(0, whole, "1", (0..PIECE, 0)), Answer::Whole);
        assert_eq!(answer(0, whole, "1", (0..PIECE, 7)), Answer::Whole);
        assert_eq!(answer(0, None, "1", (0..PIECE, 0)), Answer::Whole);
        assert_eq!(answer(0, whole, "1", (PIECE..2 * PIECE, 0)), Answer::Whole);
        assert_eq!(answer(5, whole, "1", (PIECE..2 * PIECE, 0)), Answer::Other);
        assert_eq!(answer(0, whole, "1", (0..3 * PIECE, 9)), Answer::From(0));
        assert_eq!(answer(9, whole, "1", (0..3 * PIECE, 9)), Answer::From(9));
        assert_eq!(answer(9, whole, "2", (0..3 * PIECE, 9)), Answer::Changed);
    }

    /// A store that counts the requests, and refuses the third one.
    #[derive(Default)]
    struct Ranged(Mutex<Vec<Range<u64>>>);

    impl Store for Ranged {
        async fn list(&self, _: &Limits) -> Result<Vec<Object>, StoreError> {
            Err(StoreError::Changed)
        }

        async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
            let mut asked = self.0.lock().unwrap();
            asked.push(range.clone());
            if asked.len() == 3 {
                return Err(StoreError::retry("refused"));
            }
            let bytes = Bytes::from(vec![7; usize::try_from(range.end - range.start).unwrap()]);
            let chunks = futures_util::stream::iter([Ok(bytes)]).boxed();
            let version = object.version.clone();
            Ok(Body { start: range.start, end: Some(range.end), total: object.size, version, chunks })
        }
    }

    #[tokio::test]
    async fn a_piece_is_read_in_small_requests_and_a_failure_keeps_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let objects = [object()];
        let journal = Journal::create(folder.path(), &objects, &[0; 3]).unwrap();
        let (store, disk) = (Ranged::default(), Disk::new(folder.path(), journal, None));
        let counts = [0; 3].map(AtomicU64::new);
        let (opened, _openings) = mpsc::channel(99);
        let request_size = RequestSize::of(SMALLEST);
        let reader = Reader {
            store: &store,
            objects: &objects,
            disk: &disk,
            counts: &counts,
            limit: 1 << 40,
            request_size,
            opened,
        };
        let piece = Piece { object: 0, slot: 1, bytes: PIECE..2 * PIECE, done: 5, best: 5, failures: 0 };
        let Outcome::Failed(_, done) = reader.read(&piece, None).await else { panic!("another outcome") };
        assert_eq!(counts[1].load(Ordering::Relaxed), done);
        let piece = Piece { done, ..piece };
        let Outcome::Complete(end) = reader.read(&piece, None).await else { panic!("another outcome") };
        assert_eq!((end, counts[1].load(Ordering::Relaxed)), (2 * PIECE, PIECE));
        let mut asked = store.0.into_inner().unwrap();
        assert_eq!(asked[0], PIECE + 5..PIECE + 5 + SMALLEST);
        let refused = asked.remove(2);
        assert_eq!(refused.start, asked[2].start);
        assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start), "{asked:?}");
    }

    #[test]
    fn bytes_beyond_the_range_are_dropped() {
        let chunk = |text: &'static str| Ok(Bytes::from_static(text.as_bytes()));
        let (chunks, error) = split(vec![chunk("abc"), chunk("def"), chunk("g")], 4);
        assert_eq!((chunks.concat(), error.is_some()), (b"abcd".to_vec(), false));
        let (chunks, error) = split(vec![chunk("abc"), Err(StoreError::Changed), chunk("g")], 9);
        assert_eq!((chunks.concat(), error.is_some()), (b"abc".to_vec(), true));
    }
}
