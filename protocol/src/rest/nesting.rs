//! The shape given by the brackets of nested data.

use smallvec::SmallVec;

/// Nesting of the data read so far, level by level. Brackets around a single element are ignored when shapes are
/// compared, because they are common and harmless.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// Open arrays, except the outermost one.
    open: SmallVec<[OpenArray; 8]>,
    /// The outermost array, until it is closed.
    root: OpenArray,
    /// True if arrays of one level differ in shape, or if an array mixes scalars and arrays.
    is_ragged: bool,
    /// Shape of the outermost array, once it is closed.
    shape: Dims,
}

type Dims = SmallVec<[usize; 8]>;

/// An array that is not closed yet.
#[derive(Debug, Default)]
struct OpenArray {
    /// Total number of scalars before this array.
    begin: usize,
    /// Number of closed arrays directly within this one, and of the scalars in them.
    arrays: usize,
    nested: usize,
    /// Shape that all arrays closed directly within this one have in common.
    inner: Dims,
}

impl Nesting {
    /// Opens an array that begins after `count` scalars.
    pub(super) fn open(&mut self, count: usize) {
        self.open.push(OpenArray { begin: count, ..OpenArray::default() });
    }

    /// Closes the innermost array, which ends after `count` scalars.
    pub(super) fn close(&mut self, count: usize) {
        let closed = self.open.pop();
        let is_root = closed.is_none();
        let array = closed.unwrap_or_else(|| std::mem::take(&mut self.root));
        let scalars = count - array.begin - array.nested;
        let mut dims = array.inner;
        if array.arrays > 0 && scalars > 0 {
            self.is_ragged = true;
        }
        dims.insert(0, array.arrays + scalars);
        if is_root {
            self.shape = dims;
            return;
        }
        let outer = self.open.last_mut().unwrap_or(&mut self.root);
        if outer.arrays > 0 && outer.inner != dims {
            self.is_ragged = true;
        }
        outer.arrays += 1;
        outer.nested += count - array.begin;
        outer.inner = dims;
    }

    /// Returns the dimensions of data that is nested like `dims`, in which negative dimensions match any size; `None`
    /// if the data is nested differently.
    pub(super) fn dims_if_matches(&self, dims: &[i64]) -> Option<Vec<i64>> {
        let fits = |(size, dim): (&usize, &i64)| *dim < 0 || *size as i64 == *dim;
        let same_rank = !self.is_ragged && self.shape.len() == dims.len();
        let is_like = same_rank && self.shape.iter().zip(dims).all(fits);
        is_like.then(|| self.shape.iter().map(|size| *size as i64).collect())
    }

    /// Returns true if data with these brackets fits the shape `dims`: flat, or nested like it.
    pub(super) fn fits(&self, dims: &[usize]) -> bool {
        let says = |dims: &[usize]| -> Dims {
            let said = dims.iter().filter(|dim| **dim != 1);
            said.copied().collect()
        };
        if self.is_ragged {
            return false;
        }
        let said = says(&self.shape);
        said.len() <= 1 || said == says(dims) || dims.contains(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether data with these brackets fits `dims`; each letter of `text` is a scalar.
    fn fits(text: &str, dims: &[usize]) -> bool {
        let (mut nesting, mut count, mut depth) = (Nesting::default(), 0, 0);
        for letter in text.chars() {
            match letter {
                '[' if depth == 0 => depth = 1,
                '[' => {
                    depth += 1;
                    nesting.open(count);
                }
                ']' => {
                    depth -= 1;
                    nesting.close(count);
                }
                _ => count += 1,
            }
        }
        nesting.fits(dims)
    }

    #[test]
    fn flat_data_fits_every_shape() {
        for text in ["[abcdef]", "[[abcdef]]", "[[[abcdef]]]"] {
            for dims in [&[6][..], &[2, 3], &[1, 6], &[3, 1, 2]] {
                assert!(fits(text, dims), "{text} {dims:?}");
            }
        }
        assert!(fits("[[[[a]]]]", &[1, 1]));
        assert!(fits("[]", &[0]));
    }

    #[test]
    fn nested_data_fits_its_shape() {
        assert!(fits("[[abc][def]]", &[2, 3]));
        assert!(fits("[[[abc][def]]]", &[1, 2, 3]));
        assert!(fits("[[abc][def]]", &[1, 2, 3]));
        assert!(fits("[[a][b]]", &[2]));
        assert!(fits("[[[a][b]][[c][d]]]", &[2, 2]));
        assert!(fits("[[][]]", &[2, 0]));
    }

    #[test]
    fn brackets_that_contradict_the_dims_give_no_shape() {
        for (text, dims) in [
            ("[[abcdefghijklmno][p]]", &[1, 16][..]),
            ("[[abcdefgh][ijklmnop]]", &[1, 16]),
            ("[[abc][def]]", &[3, 2]),
            ("[[ab]c]", &[3]),
            ("[a[bc]]", &[3]),
            ("[[[a]][[b[c]]]d]", &[2, 2]),
            ("[[ab][cd]]", &[4]),
            ("[[ab][c[d]]]", &[2, 2]),
            ("[[][ab]]", &[1, 2]),
        ] {
            assert!(!fits(text, dims), "{text} {dims:?}");
        }
    }
}
