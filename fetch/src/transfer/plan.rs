//! Decides which bytes are read next. The state is pure: it uses no clock, disk or network.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::path::Path;

use super::PIECE;
use crate::store::Object;

/// A part of an object that one request reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index of the object.
    pub(super) object: usize,
    /// Index of the counter of received bytes in the journal.
    pub(super) slot: usize,
    /// Bytes of the object; the end is `u64::MAX` if the size is unknown.
    pub(super) bytes: Range<u64>,
    /// Received bytes, from the start of `bytes`.
    pub(super) done: u64,
    /// The highest value of `done`, which a read from the beginning must exceed to count as progress.
    pub(super) best: u64,
    /// Consecutive failures without progress.
    pub(super) failures: u32,
}

/// The pieces that are missing, and the objects that they belong to.
#[derive(Debug)]
pub(super) struct Plan {
    queue: VecDeque<Piece>,
    objects: Vec<Progress>,
}

/// Progress of one object.
#[derive(Debug)]
struct Progress {
    /// Number of missing pieces.
    missing: usize,
    /// Missing pieces that wait until a first answer shows that the store supports ranges.
    held: Vec<Piece>,
    ranges: Ranges,
}

/// Support of ranges by the store of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ranges {
    Untested,
    Work,
}

/// Returns the number of counters that an object needs in the journal.
pub(super) fn slots(object: &Object) -> usize {
    match (object.size, &object.version) {
        (Some(size), Some(_)) => usize::try_from(size.div_ceil(PIECE)).unwrap_or(usize::MAX).max(1),
        // Without a version ranges could belong to different contents.
        (None, _) | (_, None) => 1,
    }
}

/// Returns the bytes of a piece; the end is `u64::MAX` if the object's size is unknown.
fn bytes(object: &Object, index: usize) -> Range<u64> {
    let size = object.size.unwrap_or(u64::MAX);
    if slots(object) == 1 {
        return 0..size;
    }
    let start = index as u64 * PIECE;
    start..(start + PIECE).min(size)
}

/// Spreads the bytes of a stream, which were all counted in the first slot, over the slots of an object. Counters
/// beyond the size of a piece become that size.
pub(super) fn spread(object: &Object, counts: &mut [u64]) {
    let stream = counts.first().copied().unwrap_or(0);
    for (index, count) in counts.iter_mut().enumerate() {
        let bytes = bytes(object, index);
        let of_stream = stream.saturating_sub(bytes.start);
        *count = (*count).max(of_stream).min(bytes.end - bytes.start);
    }
}

/// Returns the offset of the first byte that is missing; the size if none is.
pub(super) fn first_missing(object: &Object, counts: &[u64]) -> u64 {
    let mut end = 0;
    for (index, count) in counts.iter().enumerate() {
        let bytes = bytes(object, index);
        end = bytes.start + count;
        if end < bytes.end {
            return end;
        }
    }
    end
}

/// Returns the offset after the last byte that was received; 0 if none was.
pub(super) fn last_received(object: &Object, counts: &[u64]) -> u64 {
    let last = counts.iter().rposition(|count| *count > 0);
    last.map_or(0, |index| bytes(object, index).start + counts[index])
}

/// Returns a path that two objects need, one of them possibly as a directory; `None` if one directory can hold all.
pub(super) fn conflict(objects: &[Object]) -> Option<String> {
    let mut files = HashSet::new();
    let twice = objects.iter().find(|object| !files.insert(object.path.as_path()));
    let within = || {
        let mut folders = objects.iter().flat_map(|object| object.path.as_path().ancestors().skip(1));
        folders.find(|folder| files.contains(folder)).map(Path::to_owned)
    };
    let path = twice.map(|object| object.path.as_path().to_owned()).or_else(within);
    path.map(|path| path.display().to_string())
}

impl Plan {
    /// Returns the plan of what is missing. `counts` has the received bytes of all objects' slots in order.
    pub(super) fn new(objects: &[Object], counts: &[u64]) -> Self {
        let mut plan = Self { queue: VecDeque::new(), objects: Vec::with_capacity(objects.len()) };
        let mut slot = 0;
        for (index, object) in objects.iter().enumerate() {
            let mut pieces = Vec::new();
            for piece in 0..slots(object) {
                let (bytes, done) = (bytes(object, piece), counts[slot + piece]);
                if done < bytes.end - bytes.start || bytes.end == u64::MAX {
                    pieces.push(Piece { object: index, slot: slot + piece, bytes, done, best: done, failures: 0 });
                }
            }
            slot += slots(object);
            plan.add(pieces);
        }
        plan
    }

    fn add(&mut self, mut pieces: Vec<Piece>) {
        let missing = pieces.len();
        let held = if missing > 1 { pieces.split_off(1) } else { Vec::new() };
        self.queue.extend(pieces);
        self.objects.push(Progress { missing, held, ranges: Ranges::Untested });
    }

    /// Takes the next piece to read; `None` if none is waiting.
    pub(super) fn next(&mut self) -> Option<Piece> {
        self.queue.pop_front()
    }

    /// Returns true if no byte of the object is missing.
    pub(super) fn is_complete(&self, object: usize) -> bool {
        self.objects[object].missing == 0
    }

    /// Releases the other pieces of an object whose store has answered with a range.
    pub(super) fn ranges_work(&mut self, object: usize) {
        self.objects[object].ranges = Ranges::Work;
        for piece in std::mem::take(&mut self.objects[object].held).into_iter().rev() {
            self.queue.push_front(piece);
        }
    }

    /// Replaces all pieces of an object, whose store ignores ranges, by one that is read from the beginning. `None` if
    /// ranges have worked before, so that other reads of the object are in flight.
    pub(super) fn stream(&mut self, piece: &Piece, object: &Object) -> Option<Piece> {
        let progress = &mut self.objects[piece.object];
        if progress.ranges == Ranges::Work {
            return None;
        }
        progress.missing = 1;
        progress.held.clear();
        let slot = piece.slot - usize::try_from(piece.bytes.start / PIECE).unwrap_or(0);
        let bytes = 0..object.size.unwrap_or(u64::MAX);
        let best = piece.best.max(piece.bytes.start + piece.done);
        Some(Piece { object: piece.object, slot, bytes, done: 0, best, failures: piece.failures })
    }

    /// Records that a piece is complete. This also releases the other pieces: a short rest of a piece may be complete
    /// before the report arrives that its store has answered with a range.
    pub(super) fn completed(&mut self, piece: &Piece) {
        self.objects[piece.object].missing -= 1;
        self.ranges_work(piece.object);
    }

    /// Returns true if no byte of any object is missing.
    pub(super) fn is_finished(&self) -> bool {
        self.objects.iter().all(|object| object.missing == 0)
    }

    /// Records a failure of a read that had reached `done`, and returns the piece with the number of failures.
    pub(super) fn failed(piece: Piece, done: u64) -> Piece {
        let failures = if done > piece.best { 0 } else { piece.failures + 1 };
        Piece { best: piece.best.max(done), done, failures, ..piece }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::archive::packing::Packing;
    use crate::store::RelativePath;

    fn object(path: &str, size: Option<u64>, version: Option<&str>) -> Object {
        Object {
            path: RelativePath::parse(path).unwrap(),
            key: path.to_owned(),
            size,
            version: version.map(str::to_owned),
            digest: None,
            packing: Packing::None,
        }
    }

    fn ranges(plan: &mut Plan) -> Vec<(usize, Range<u64>)> {
        std::iter::from_fn(|| plan.next()).map(|piece| (piece.object, piece.bytes)).collect()
    }

    #[test]
    fn an_object_is_read_in_pieces_once_its_store_supports_ranges() {
        let objects = [object("a", Some(2 * PIECE + 1), Some("1")), object("b", Some(5), Some("1"))];
        let mut plan = Plan::new(&objects, &[0; 4]);
        assert_eq!(ranges(&mut plan), [(0, 0..PIECE), (1, 0..5)]);
        plan.ranges_work(0);
        assert_eq!(ranges(&mut plan), [(0, PIECE..2 * PIECE), (0, 2 * PIECE..2 * PIECE + 1)]);
    }

    #[test]
    fn a_piece_that_is_complete_at_once_releases_the_others() {
        let objects = [object("a", Some(2 * PIECE + 1), Some("1"))];
        let mut plan = Plan::new(&objects, &[PIECE - 1, 0, 0]);
        let first = plan.next().unwrap();
        assert_eq!(plan.next(), None);
        plan.completed(&first);
        assert!(!plan.is_finished());
        let (second, third) = (plan.next().unwrap(), plan.next().unwrap());
        // The report about the first piece arrives now.
        plan.ranges_work(0);
        assert_eq!(plan.next(), None);
        plan.completed(&second);
        plan.completed(&third);
        assert!(plan.is_finished() && plan.is_complete(0));
    }

    #[test]
    fn without_a_size_or_a_version_an_object_is_one_stream() {
        let objects = [object("a", None, Some("1")), object("b", Some(3 * PIECE), None)];
        assert_eq!(ranges(&mut Plan::new(&objects, &[0; 2])), [(0, 0..u64::MAX), (1, 0..3 * PIECE)]);
    }

    #[test]
    fn a_store_that_ignores_ranges_gives_a_stream() {
        let objects = [object("x", Some(1), Some("1")), object("a", Some(3 * PIECE), Some("1"))];
        let mut plan = Plan::new(&objects, &[1, PIECE, 7, 0]);
        let piece = plan.next().unwrap();
        assert_eq!((piece.slot, piece.done), (2, 7));
        let stream = plan.stream(&piece, &objects[1]).unwrap();
        assert_eq!((stream.slot, stream.bytes.clone(), stream.done, stream.best), (1, 0..3 * PIECE, 0, PIECE + 7));
        plan.completed(&stream);
        assert!(plan.is_complete(1) && plan.is_complete(0));
        assert_eq!(plan.next(), None);
    }

    #[test]
    fn a_stream_does_not_replace_ranges_in_flight() {
        let objects = [object("a", Some(3 * PIECE), Some("1"))];
        let mut plan = Plan::new(&objects, &[0; 3]);
        let _first = plan.next().unwrap();
        plan.ranges_work(0);
        let second = plan.next().unwrap();
        assert_eq!(plan.stream(&second, &objects[0]), None);
    }

    #[test]
    fn only_new_bytes_are_progress() {
        let piece = Piece { object: 0, slot: 0, bytes: 0..100, done: 0, best: 0, failures: 0 };
        let piece = Plan::failed(piece, 0);
        assert_eq!(piece.failures, 1);
        let piece = Plan::failed(piece, 50);
        assert_eq!((piece.failures, piece.best, piece.done), (0, 50, 50));
        // A stream from the beginning got less far than the one before.
        let piece = Plan::failed(piece, 40);
        assert_eq!((piece.failures, piece.best, piece.done), (1, 50, 40));
    }

    #[test]
    fn files_and_directories_of_one_name_are_found() {
        let conflict = |paths: &[&str]| {
            let objects: Vec<_> = paths.iter().map(|path| object(path, None, None)).collect();
            super::conflict(&objects)
        };
        assert_eq!(conflict(&["a/b", "a/c", "ab"]), None);
        assert_eq!(conflict(&["a/b", "a"]), Some("a".to_owned()));
        assert_eq!(conflict(&["a/b/c/d", "x", "a/b"]), Some("a/b".to_owned()));
        assert_eq!(conflict(&["a", "a"]), Some("a".to_owned()));
    }

    #[test]
    fn the_first_missing_byte_follows_the_counters() {
        let object = object("a", Some(2 * PIECE + 5), Some("1"));
        assert_eq!(first_missing(&object, &[0, PIECE, 0]), 0);
        assert_eq!(first_missing(&object, &[PIECE, 3, 5]), PIECE + 3);
        assert_eq!(first_missing(&object, &[PIECE, PIECE, 5]), 2 * PIECE + 5);
    }

    proptest! {
        /// After any interruption, the rest of the pieces and the counters cover each byte once.
        #[test]
        fn counters_and_pieces_cover_each_byte_once(size in 0..5 * PIECE, counts in prop::collection::vec(0..3 * PIECE, 5)) {
            let object = object("a", Some(size), Some("1"));
            let mut counts = counts[..slots(&object)].to_vec();
            spread(&object, &mut counts);
            let received: u64 = counts.iter().sum();
            let mut plan = Plan::new(std::slice::from_ref(&object), &counts);
            let first = plan.next();
            plan.ranges_work(0);
            let rest = std::iter::from_fn(|| plan.next());
            let missing: u64 = first.into_iter().chain(rest).map(|piece| piece.bytes.end - piece.bytes.start - piece.done).sum();
            prop_assert_eq!(received + missing, size);
        }
    }
}
