//! The loop and the mutations that fuzz tests share. The loop runs for `WEIR_FUZZ_SECONDS` with the seed
//! `WEIR_FUZZ_SEED`, which is fixed unless it is set, so that a failure is reproducible.

#![expect(clippy::disallowed_methods, reason = "a fuzz run is limited by wall-clock time")]

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use proptest::test_runner::{RngAlgorithm, TestRng};

pub use proptest::prelude::Rng;
pub use proptest::test_runner::TestRng as FuzzRng;

/// Number of inputs between two checks of the time.
const ROUND: usize = 100;

/// Runs `target` with inputs from `make` for `seconds`, or for `WEIR_FUZZ_SECONDS` if that is set. Prints the number of
/// inputs.
///
/// # Panics
/// Panics if `target` panics, with the input in the message.
pub fn fuzz<I: Debug>(seconds: u64, make: impl Fn(&mut TestRng) -> I, target: impl Fn(&I, &mut TestRng)) {
    let seconds = set("WEIR_FUZZ_SECONDS").unwrap_or(seconds);
    let seed = set("WEIR_FUZZ_SEED").unwrap_or(7);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut cases = 0_usize;
    while Instant::now() < end {
        for _ in 0..ROUND {
            let input = make(&mut rng);
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&input, &mut rng)));
            assert!(outcome.is_ok(), "case {cases}: {input:?}");
            cases += 1;
        }
    }
    println!("{cases} cases in {seconds} s, seed {seed}");
}

/// Returns the number in a variable of the environment. `None` if it is not set, or is no number of this type.
fn set<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Makes between one and `most` edits to a text of the corpus: flips bits, replaces bytes by bytes of the alphabet,
/// inserts and removes bytes, and inserts pieces of other texts.
pub fn mutate<T: AsRef<[u8]>>(corpus: &[T], alphabet: &[u8], most: usize, rng: &mut TestRng) -> Vec<u8> {
    let mut text = corpus[pick(rng, corpus.len())].as_ref().to_vec();
    for _ in 0..=pick(rng, most) {
        let at = pick(rng, text.len());
        match pick(rng, 6) {
            0 if !text.is_empty() => text[at] ^= 1 << pick(rng, 8),
            1 if !text.is_empty() => text[at] = alphabet[pick(rng, alphabet.len())],
            2 => text.insert(at, rng.next_u32() as u8),
            3 => {
                let other = corpus[pick(rng, corpus.len())].as_ref();
                let from = pick(rng, other.len());
                let to = from + pick(rng, other.len() - from);
                text.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let end = at + pick(rng, (text.len() - at).min(16));
                text.drain(at..end);
            }
        }
    }
    text
}

/// Returns a random number below `bound`, or 0 if `bound` is 0.
pub fn pick(rng: &mut TestRng, bound: usize) -> usize {
    rng.next_u64() as usize % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_differ_and_are_reproducible() {
        let texts = || {
            let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
            let text = |_| mutate(&[b"hello", &b""[..]], b"xyz", 4, &mut rng);
            (0..100).map(text).collect::<Vec<_>>()
        };
        let first = texts();
        assert_eq!(first, texts());
        assert!(first.iter().any(|text| text != &first[0]));
    }
}
