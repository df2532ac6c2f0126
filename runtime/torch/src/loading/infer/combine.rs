//! Combinations of one pattern per argument, with sizes for the dimensions that no weight determines.

use super::patterns::{Dim, Pattern};

/// Largest number of combinations that are considered.
const MOST_COMBINATIONS: usize = 4096;

/// Number of combinations that are tried with further sizes, after all of them were tried with the first size.
const WITH_ALL_SIZES: usize = 8;

/// Lengths of sequences to try, in this order, after the sizes of the weights.
const LENGTHS: [i64; 21] = [8, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64, 128, 1024, 16_000];

/// Sides of images to try, in pixels: those that models are commonly made for, the small ones first. The search takes
/// the first that works; larger trials then show whether the model accepts other sizes.
const SIDES: [i64; 13] = [8, 28, 32, 64, 96, 224, 299, 16, 48, 128, 256, 384, 512];

/// Largest length to try. With three spatial dimensions, the length times the square of the side is at most 64 times
/// this value, because memory grows with that product.
const LONGEST: i64 = 16_384;

/// Returns all choices of one pattern per argument, the most likely first.
pub(super) fn choices(patterns: &[Vec<Pattern>]) -> Vec<Vec<Pattern>> {
    let arguments = patterns.len().max(1) as u32;
    let most = (1..).take_while(|most: &usize| most.saturating_pow(arguments) <= MOST_COMBINATIONS);
    let most = most.last().unwrap_or(1);
    let mut ranked: Vec<(usize, Vec<Pattern>)> = vec![(0, Vec::new())];
    for of_argument in patterns {
        let longer = ranked.iter().flat_map(|(rank, chosen)| {
            let more = of_argument.iter().take(most).enumerate();
            more.map(move |(index, pattern)| {
                (rank + index, [chosen.as_slice(), std::slice::from_ref(pattern)].concat())
            })
        });
        ranked = longer.collect();
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, chosen)| chosen).collect()
}

/// Sizes of the open dimensions of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) length: i64,
    pub(super) side: i64,
}

/// The first sizes, with which every choice is tried.
pub(super) const FIRST: Sizes = Sizes { length: LENGTHS[0], side: SIDES[0] };

/// Returns the choices with the sizes to try, in order. `of_weights` are the sizes of the module's weights, which may
/// be sequence lengths: a model with 12 position embeddings takes 12 steps.
pub(super) fn with_sizes(choices: Vec<Vec<Pattern>>, of_weights: &[i64]) -> Vec<(Vec<Pattern>, Sizes)> {
    let further: Vec<(Vec<Pattern>, Sizes)> = choices
        .iter()
        .take(WITH_ALL_SIZES)
        .flat_map(|choice| further_sizes(choice, of_weights).into_iter().map(|sizes| (choice.clone(), sizes)))
        .collect();
    let first = choices.into_iter().map(|choice| (choice, FIRST));
    first.chain(further).collect()
}

fn further_sizes(choice: &[Pattern], of_weights: &[i64]) -> Vec<Sizes> {
    let has = |wanted: Dim| choice.iter().any(|pattern| pattern.dims.contains(&wanted));
    let mut lengths = vec![FIRST.length];
    if has(Dim::Length) {
        lengths.extend(of_weights.iter().copied().filter(|size| (2..LONGEST).contains(size)));
        lengths.extend(LENGTHS);
    }
    let sides = if has(Dim::Side) { &SIDES[..] } else { &SIDES[..1] };
    let mut all: Vec<Sizes> = Vec::new();
    for length in lengths {
        for &side in sides {
            let sizes = Sizes { length, side };
            let heavy = length.saturating_mul(side).saturating_mul(side) > LONGEST * 64;
            if sizes != FIRST && !heavy && !all.contains(&sizes) {
                all.push(sizes);
            }
        }
    }
    all
}

impl Pattern {
    /// Returns the dimensions, with `sizes` in place of the open ones.
    pub(super) fn dims(&self, sizes: Sizes) -> Vec<i64> {
        let size = |dim: &Dim| match *dim {
            Dim::Fixed(size) | Dim::Part(size) => size,
            Dim::Length => sizes.length,
            Dim::Side => sizes.side,
        };
        self.dims.iter().map(size).collect()
    }
}

/// Computes the size of a concatenated input from the error message of a matrix product. In `(2x17 and 13x3)` the
/// concatenated inputs are 4 elements too long, so the size shrinks by 4.
pub(super) fn corrected_part(tried: i64, complaint: &str) -> Option<i64> {
    let (_, shapes) = complaint.split_once("shapes cannot be multiplied (")?;
    let (shapes, _) = shapes.split_once(')')?;
    let (left, right) = shapes.split_once(" and ")?;
    let got: i64 = left.split_once('x')?.1.parse().ok()?;
    let wanted: i64 = right.split_once('x')?.0.parse().ok()?;
    let corrected = tried.checked_sub(got.checked_sub(wanted)?)?;
    (corrected > 0 && corrected != tried).then_some(corrected)
}

#[cfg(test)]
mod tests {
    use weir_protocol::DataType;

    use super::*;

    fn pattern(dims: &[Dim]) -> Pattern {
        Pattern { datatype: DataType::Fp32, dims: dims.to_vec() }
    }

    #[test]
    fn the_likely_choices_come_first() {
        let [a, b] = [pattern(&[Dim::Fixed(1)]), pattern(&[Dim::Fixed(2)])];
        let made = choices(&[vec![a.clone(), b.clone()], vec![a.clone(), b.clone()]]);
        assert_eq!(made.len(), 4);
        assert_eq!(made[0], [a.clone(), a]);
        assert_eq!(made[3], [b.clone(), b]);
        assert_eq!(choices(&[]), [Vec::<Pattern>::new()]);
    }

    #[test]
    fn sizes_of_weights_are_tried_as_lengths() {
        let steps = vec![pattern(&[Dim::Length, Dim::Fixed(5)])];
        let tried = with_sizes(vec![steps], &[12, 8]);
        let lengths: Vec<i64> = tried.iter().map(|(_, sizes)| sizes.length).collect();
        assert_eq!(lengths[..3], [8, 12, 1]);
        let fixed = vec![pattern(&[Dim::Fixed(5)])];
        assert_eq!(with_sizes(vec![fixed], &[12]).len(), 1);
    }

    #[test]
    fn a_part_is_corrected_by_the_complaint() {
        let complaint = "mat1 and mat2 shapes cannot be multiplied (2x17 and 13x3)";
        assert_eq!(corrected_part(13, complaint), Some(9));
        assert_eq!(corrected_part(2, complaint), None);
        assert_eq!(corrected_part(2, "another complaint"), None);
    }

    proptest::proptest! {
        #[test]
        fn choices_are_bounded(counts in proptest::collection::vec(1_usize..13, 0..9)) {
            let patterns: Vec<Vec<Pattern>> = counts
                .iter()
                .map(|count| (0..*count).map(|n| pattern(&[Dim::Fixed(n as i64 + 1)])).collect())
                .collect();
            let made = choices(&patterns);
            proptest::prop_assert!(!made.is_empty() && made.len() <= MOST_COMBINATIONS);
            proptest::prop_assert!(made.iter().all(|choice| choice.len() == counts.len()));
        }
    }
}
