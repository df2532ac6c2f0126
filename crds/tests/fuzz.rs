//! Fuzz test with mutated manifests: any text is read or refused with a diagnostic, without a panic or delay.
//! `WEIR_FUZZ_SECONDS` sets the duration; the seed is fixed, so a failure is reproducible.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use weir_fuzz::{FuzzRng, Rng, pick};

/// Default duration in seconds: long enough to reach every rule, short enough for every test run.
const SECONDS: u64 = 3;

/// Maximum time for one text of a few kilobytes; only a reader that is not linear exceeds it.
const TOO_SLOW: Duration = Duration::from_secs(2);

const SEEDS: [&str; 5] = [
    include_str!("samples/model.yaml"),
    include_str!("samples/canary.yaml"),
    include_str!("samples/custom.yaml"),
    include_str!("samples/runtimes.yaml"),
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n---\n? [1]\n: !!binary \"eA==\"\n",
];

const TOKENS: [&str; 14] =
    ["&a ", "*a", "<<: *a", "- ", ": ", "---\n", "!!int ", "{", "}", "[", "]", "\"", "\t", "\u{feff}"];

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures the time per text")]
fn no_manifest_makes_the_reader_panic() {
    weir_fuzz::fuzz(SECONDS, mutated, |text, _| {
        let began = Instant::now();
        drop(weir_crds::read("f.yaml", text));
        assert!(began.elapsed() < TOO_SLOW, "slow: {text:?}");
    });
}

fn mutated(rng: &mut FuzzRng) -> String {
    let mut text = SEEDS[pick(rng, SEEDS.len())].as_bytes().to_vec();
    for _ in 0..=pick(rng, 6) {
        let at = pick(rng, text.len());
        match pick(rng, 5) {
            0 if !text.is_empty() => text[at] = rng.next_u32() as u8 & 0x7f,
            1 => {
                let token = TOKENS[pick(rng, TOKENS.len())];
                text.splice(at..at, token.bytes());
            }
            2 => {
                let other = SEEDS[pick(rng, SEEDS.len())].as_bytes();
                let from = pick(rng, other.len());
                let to = from + pick(rng, (other.len() - from).min(200));
                text.splice(at..at, other[from..to].iter().copied());
            }
            3 => text.insert(at, rng.next_u32() as u8),
            _ => {
                let end = at + pick(rng, (text.len() - at).min(40));
                text.drain(at..end);
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}
