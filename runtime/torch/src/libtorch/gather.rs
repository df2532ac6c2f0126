//! Gathers the data of several requests into one batch tensor.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weir_runtime::backend::{Column, RequestTensor};

use crate::libtorch::element;

/// Checks that the parts fit the column: no more rows, no dimension larger, and the right number of bytes.
pub(crate) fn check(column: &Column, element_size: usize) -> Result<(), String> {
    let whole = column.shape.dims();
    let mut rows = 0;
    for part in &column.parts {
        let dims = part.shape.dims();
        let fits = dims.len() == whole.len()
            && dims.iter().zip(whole).skip(1).all(|(dim, max)| dim <= max)
            && part.data.len() == part.shape.elements() * element_size;
        if !fits {
            return Err(format!(
                "input '{}' of shape {} with {} bytes does not fit a batch of shape {}",
                column.name,
                part.shape,
                part.data.len(),
                column.shape
            ));
        }
        rows += rows_of(dims);
    }
    if rows > rows_of(whole) {
        let name = &column.name;
        return Err(format!("input '{name}' has {rows} rows for a batch of shape {}", column.shape));
    }
    Ok(())
}

/// Returns the size of the batch tensor in bytes; 0 for strings, which have no tensor.
pub(crate) fn bytes(column: &Column) -> usize {
    column.shape.elements() * column.datatype.size().unwrap_or(0)
}

/// Returns the bytes of the only part, if it fills the column without padding.
pub(crate) fn single_part(column: &Column) -> Option<&Bytes> {
    match column.parts.as_slice() {
        [part] if part.shape == column.shape => Some(&part.data),
        _ => None,
    }
}

/// Writes every byte of the batch tensor: the parts one after the other, with padding. The column must have passed
/// [`check`].
pub(crate) fn gather(column: &Column, element_size: usize, out: &mut [MaybeUninit<u8>]) {
    gather_staged(column, element_size, &[], out);
}

/// Writes the batch tensor like [`gather`]. A part for which `staged` has a row was copied to this row of `out` by
/// [`stage`], and is moved to its place, unless another part was written over it. `out` may have more rows than the batch.
pub(crate) fn gather_staged(
    column: &Column,
    element_size: usize,
    staged: &[Option<usize>],
    out: &mut [MaybeUninit<u8>],
) {
    let layout = RowLayout::of(column, element_size);
    let staged = staged.iter().copied().chain(std::iter::repeat(None));
    let mut at = 0;
    for (part, staged) in column.parts.iter().zip(staged) {
        let rows = rows_of(part.shape.dims());
        // All writes so far are before row `at`, so rows from there on are still as they were staged.
        match staged.filter(|first| *first >= at).and_then(|first| layout.range(first, rows, out.len())) {
            Some(from) => out.copy_within(from, at * layout.bytes),
            None => layout.place(part, at, out),
        }
        at += rows;
    }
    let end = (rows_of(column.shape.dims()) * layout.bytes).min(out.len());
    fill(&mut out[at * layout.bytes..end], &layout.pad);
}

/// Copies the column's only part, with padding, to row `first` of `out`, in which the rows of a batch lie. The column must
/// have passed [`check`].
pub(crate) fn stage(column: &Column, element_size: usize, first: usize, out: &mut [MaybeUninit<u8>]) {
    let layout = RowLayout::of(column, element_size);
    for part in &column.parts {
        layout.place(part, first, out);
    }
}

/// The layout of a row in a batch tensor.
struct RowLayout<'a> {
    /// Dimensions of a row.
    inner: &'a [usize],
    bytes: usize,
    pad: Vec<u8>,
}

impl<'a> RowLayout<'a> {
    fn of(column: &'a Column, element_size: usize) -> Self {
        let inner = column.shape.dims().get(1..).unwrap_or(&[]);
        let bytes = inner.iter().product::<usize>() * element_size;
        Self { inner, bytes, pad: element::encode(column.datatype, column.pad) }
    }

    /// Returns the bytes of these rows; `None` if they do not fit into `size` bytes.
    fn range(&self, first: usize, rows: usize, size: usize) -> Option<Range<usize>> {
        let range = first * self.bytes..(first + rows) * self.bytes;
        (range.end <= size).then_some(range)
    }

    fn place(&self, part: &RequestTensor, first: usize, out: &mut [MaybeUninit<u8>]) {
        let rows = rows_of(part.shape.dims());
        place_part(&mut out[first * self.bytes..(first + rows) * self.bytes], self.inner, part, &self.pad);
    }
}

/// Concatenates the BYTES elements of all parts; strings are not padded.
pub(crate) fn strings(column: &Column) -> Bytes {
    if let [part] = column.parts.as_slice() {
        return part.data.clone();
    }
    let size = column.parts.iter().map(|part| part.data.len()).sum();
    let mut all = BytesMut::with_capacity(size);
    for part in &column.parts {
        all.extend_from_slice(&part.data);
    }
    all.freeze()
}

/// Returns the number of rows of a tensor; a scalar counts as one row.
fn rows_of(dims: &[usize]) -> usize {
    dims.first().copied().unwrap_or(1)
}

fn place_part(target: &mut [MaybeUninit<u8>], inner: &[usize], part: &RequestTensor, pad: &[u8]) {
    let own = part.shape.dims().get(1..).unwrap_or(&[]);
    if own == inner {
        target.write_copy_of_slice(&part.data);
        return;
    }
    fill(target, pad);
    let rows = rows_of(part.shape.dims());
    let (Some(to), Some(from)) = (target.len().checked_div(rows), part.data.len().checked_div(rows)) else {
        return;
    };
    if from == 0 {
        return;
    }
    for (target, data) in target.chunks_exact_mut(to).zip(part.data.chunks_exact(from)) {
        place(target, inner, data, own);
    }
}

/// Copies a smaller block into the corner of a larger one. Both have the same rank and at least one element.
fn place(target: &mut [MaybeUninit<u8>], whole: &[usize], data: &[u8], own: &[usize]) {
    let same_inside = whole.get(1..) == own.get(1..);
    if same_inside {
        target[..data.len()].write_copy_of_slice(data);
        return;
    }
    let (to, from) = (target.len() / whole[0], data.len() / own[0]);
    for (target, data) in target.chunks_exact_mut(to).zip(data.chunks_exact(from)) {
        place(target, &whole[1..], data, &own[1..]);
    }
}

fn fill(target: &mut [MaybeUninit<u8>], pad: &[u8]) {
    for element in target.chunks_exact_mut(pad.len().max(1)) {
        element.write_copy_of_slice(pad);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weir_protocol::{DataType, Shape};

    use super::*;

    fn column(shape: &[i64], parts: &[(&[i64], &[u8])]) -> Column {
        let parts = parts.iter().map(|(shape, data)| RequestTensor {
            datatype: DataType::Uint8,
            shape: Shape::new(shape).unwrap(),
            data: Bytes::copy_from_slice(data),
        });
        Column {
            name: Arc::from("x"),
            datatype: DataType::Uint8,
            shape: Shape::new(shape).unwrap(),
            parts: parts.collect(),
            pad: 9.0,
        }
    }

    fn gathered(column: &Column) -> Vec<u8> {
        check(column, 1).unwrap();
        // The buffer holds stale bytes, every one of which must be overwritten.
        let mut out = vec![MaybeUninit::new(77); column.shape.elements()];
        gather(column, 1, &mut out);
        initialised(&out)
    }

    fn initialised(bytes: &[MaybeUninit<u8>]) -> Vec<u8> {
        let bytes = bytes.iter().map(|byte| {
            // SAFETY: `vec!` initialised every element.
            #[expect(unsafe_code, reason = "reads what the test wrote")]
            unsafe {
                byte.assume_init()
            }
        });
        bytes.collect()
    }

    #[test]
    fn equal_parts_lie_one_after_the_other() {
        let column = column(&[3, 2], &[(&[1, 2], &[1, 2]), (&[2, 2], &[3, 4, 5, 6])]);
        assert_eq!(gathered(&column), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn smaller_parts_are_padded_in_every_dimension() {
        let column = column(&[2, 2, 3], &[(&[1, 1, 2], &[1, 2]), (&[1, 2, 1], &[3, 4])]);
        assert_eq!(gathered(&column), [1, 2, 9, 9, 9, 9, 3, 9, 9, 4, 9, 9]);
    }

    #[test]
    fn missing_rows_and_empty_parts_are_padding() {
        let column = column(&[3, 2], &[(&[1, 0], &[]), (&[1, 2], &[1, 2])]);
        assert_eq!(gathered(&column), [9, 9, 1, 2, 9, 9]);
    }

    #[test]
    fn a_scalar_is_one_row() {
        assert_eq!(gathered(&column(&[], &[(&[], &[4])])), [4]);
    }

    /// Returns the batch of the column after its parts were staged to these rows, in this order of their positions.
    fn staged(column: &Column, most: usize, staged: &[(usize, usize)]) -> Vec<u8> {
        let row = column.shape.dims()[1..].iter().product::<usize>();
        let mut out = vec![MaybeUninit::new(77); most * row];
        let mut places = vec![None; column.parts.len()];
        for &(position, first) in staged {
            let alone = Column { parts: vec![column.parts[position].clone()], ..column.clone() };
            stage(&alone, 1, first, &mut out);
            places[position] = Some(first);
        }
        gather_staged(column, 1, &places, &mut out);
        initialised(&out[..column.shape.elements()])
    }

    proptest! {
        /// `order` has the positions of the parts in the batch in the order in which they were staged; other positions are
        /// requests that were cancelled or overtaken, and left their rows behind.
        #[test]
        fn staged_parts_give_the_same_batch_as_copied_ones(
            sizes in prop::collection::vec((1..4_i64, 1..3_i64), 1..6),
            order in Just((0..9_usize).collect::<Vec<_>>()).prop_shuffle(),
            staged_parts in 0..9_usize,
        ) {
            let bytes: Vec<u8> = (0..64).collect();
            let mut from = 0;
            let parts: Vec<(Vec<i64>, &[u8])> = sizes.iter().map(|&(rows, inner)| {
                let count = (rows * inner) as usize;
                from += count;
                (vec![rows, inner], &bytes[from - count..from])
            }).collect();
            let parts: Vec<(&[i64], &[u8])> = parts.iter().map(|(shape, data)| (shape.as_slice(), *data)).collect();
            let rows = sizes.iter().map(|(rows, _)| rows).sum();
            let column = column(&[rows, 2], &parts);
            let mut first = 0;
            let mut places = Vec::new();
            for &position in &order[..staged_parts] {
                places.extend((position < sizes.len()).then_some((position, first)));
                first += sizes.get(position).map_or(2, |(rows, _)| *rows as usize);
            }
            prop_assert_eq!(staged(&column, 32, &places), gathered(&column));
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        for parts in [
            &[(&[1_i64, 3][..], &[1_u8, 2, 3][..])][..],
            &[(&[1, 2], &[1])],
            &[(&[2], &[1, 2])],
            &[(&[2, 2], &[1, 2, 3, 4]), (&[2, 2], &[1, 2, 3, 4])],
        ] {
            assert!(check(&column(&[3, 2], parts), 1).is_err(), "{parts:?}");
        }
    }
}
