//! Typed tensor contents: one list per element type, of which at most one has elements.

use std::ops::Range;

use weir_protocol::grpc::proto::InferTensorContents;

/// Appends the elements of `from`.
pub(super) fn extend(to: &mut InferTensorContents, from: Option<&InferTensorContents>) {
    let Some(from) = from else { return };
    to.bool_contents.extend_from_slice(&from.bool_contents);
    to.int_contents.extend_from_slice(&from.int_contents);
    to.int64_contents.extend_from_slice(&from.int64_contents);
    to.uint_contents.extend_from_slice(&from.uint_contents);
    to.uint64_contents.extend_from_slice(&from.uint64_contents);
    to.fp32_contents.extend_from_slice(&from.fp32_contents);
    to.fp64_contents.extend_from_slice(&from.fp64_contents);
    to.bytes_contents.extend_from_slice(&from.bytes_contents);
}

/// Returns the elements of these rows; `all` is the number of rows in total.
pub(super) fn slice(whole: &InferTensorContents, all: usize, rows: &Range<usize>) -> InferTensorContents {
    InferTensorContents {
        bool_contents: rows_of(&whole.bool_contents, all, rows),
        int_contents: rows_of(&whole.int_contents, all, rows),
        int64_contents: rows_of(&whole.int64_contents, all, rows),
        uint_contents: rows_of(&whole.uint_contents, all, rows),
        uint64_contents: rows_of(&whole.uint64_contents, all, rows),
        fp32_contents: rows_of(&whole.fp32_contents, all, rows),
        fp64_contents: rows_of(&whole.fp64_contents, all, rows),
        bytes_contents: rows_of(&whole.bytes_contents, all, rows),
    }
}

/// Returns the number of elements; `None` if more than one list has elements.
pub(super) fn count(contents: &InferTensorContents) -> Option<usize> {
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let lengths = [
        bool_contents.len(),
        int_contents.len(),
        int64_contents.len(),
        uint_contents.len(),
        uint64_contents.len(),
        fp32_contents.len(),
        fp64_contents.len(),
        bytes_contents.len(),
    ];
    let mut filled = lengths.into_iter().filter(|length| *length > 0);
    let count = filled.next().unwrap_or(0);
    filled.next().is_none().then_some(count)
}

fn rows_of<T: Clone>(list: &[T], all: usize, rows: &Range<usize>) -> Vec<T> {
    let each = list.len() / all.max(1);
    let part = list.get(rows.start * each..rows.end * each);
    part.unwrap_or_default().to_vec()
}
