//! A random number generator, and the corpus of inputs that it mutates.

use std::collections::HashSet;

/// xorshift64*: a small seeded generator with the same sequence on every machine.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }
}

/// Tokens at the boundaries of what the decoders accept.
const TOKENS: &[&[u8]] = &[
    b"NaN",
    b"-Infinity",
    b"Inf",
    b"1e400",
    b"-1",
    b"-0.0",
    b"1.5",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"1152921504606846978",
    b"0.1000000014901161193847656250001",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"]]]]",
    b"{\"a\":",
    b"\"\\ud83d\\ude00\"",
    b"\"\\ud800\"",
    b"\\u0000",
    b"\xff",
    b"\xc3\xa9",
    b"\"",
    b"\\",
    b",",
    b":",
    b"\"name\":\"x\",",
    b"\"datatype\":\"FP32\",",
    b"\"datatype\":\"BYTES\",",
    b"\"datatype\":\"INT64\",",
    b"\"shape\":[2],",
    b"\"shape\":[0,1000000000000],",
    b"\"data\":[1,2],",
    b"\"data\":[\"a\",\"b\"],",
    b"\"parameters\":{\"binary_data_size\":2},",
    b"\"parameters\":{\"shared_memory_region\":\"r\"},",
    b"\"binary_data_output\":true,",
    b"{\"b64\":\"AP8=\"}",
    b"{\"x\":1}",
];

/// Maximum length of an input in bytes: longer ones find the same defects more slowly.
const MAX_LENGTH: usize = 4096;

/// Maximum number of inputs kept: more would dilute the seeds.
const MAX_INPUTS: usize = 512;

/// Inputs to mutate: the seeds, and each input that had a new outcome.
pub(crate) struct Corpus {
    inputs: Vec<Vec<u8>>,
    seen: HashSet<String>,
}

impl Corpus {
    pub(crate) fn new(seeds: &[&[u8]]) -> Self {
        Self { inputs: seeds.iter().map(|seed| seed.to_vec()).collect(), seen: HashSet::new() }
    }

    /// Keeps an input if its outcome differs from all earlier outcomes in more than digits.
    pub(crate) fn learn(&mut self, input: Vec<u8>, outcome: &str) {
        let mut kind: String = outcome.chars().filter(|c| !c.is_ascii_digit()).collect();
        kind.truncate(kind.floor_char_boundary(120));
        if self.inputs.len() < MAX_INPUTS && self.seen.insert(kind) {
            self.inputs.push(input);
        }
    }

    /// Makes one to eight changes to one of the inputs.
    pub(crate) fn mutate(&self, rng: &mut Rng) -> Vec<u8> {
        let mut input = self.inputs[rng.below(self.inputs.len())].clone();
        for _ in 0..=rng.below(8) {
            self.change(&mut input, rng);
        }
        input.truncate(MAX_LENGTH);
        input
    }

    fn change(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let at = rng.below(input.len() + 1);
        let end = at + rng.below((input.len() - at).min(32) + 1);
        match rng.below(7) {
            0 if at < input.len() => input[at] ^= 1 << rng.below(8),
            1 => input.insert(at, rng.next() as u8),
            2 => drop(input.drain(at..end)),
            3 => {
                let piece = input[at..end].to_vec();
                drop(input.splice(at..at, piece));
            }
            4 => {
                let other = &self.inputs[rng.below(self.inputs.len())];
                let from = rng.below(other.len() + 1);
                let to = from + rng.below((other.len() - from).min(64) + 1);
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
            5 => drop(input.splice(at..end, TOKENS[rng.below(TOKENS.len())].iter().copied())),
            _ => drop(input.splice(at..at, TOKENS[rng.below(TOKENS.len())].iter().copied())),
        }
    }
}
