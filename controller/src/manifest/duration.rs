//! Durations in Go's notation, as in annotations.
//!
//! No library of this workspace reads this notation. kube's `Duration` panics if a number is too large, and jiff
//! refuses fractions such as `1.5h30m`.

use std::time::Duration;

/// Units and their lengths in nanoseconds. `ms` comes before `m`, because the first match counts.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("h", 3.6e12), ("m", 6e10), ("s", 1e9)];

/// Longest duration that is accepted: a year. A longer one is probably a typing error.
const MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a duration such as `500ms`, `55s`, `1m30s` or `1.5h`; `0` needs no unit.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let (name, length) = UNITS.iter().find(|(name, _)| rest[end..].starts_with(name))?;
        sum += number * length;
        rest = &rest[end + name.len()..];
    }
    let duration = Duration::try_from_secs_f64(sum / 1e9).ok()?;
    (!text.is_empty() && duration <= MAX).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_notation() {
        for (text, ms) in
            [("500ms", 500), ("55s", 55_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("1.5h30m", 7_200_000)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0"), Some(Duration::ZERO));
        for text in ["", "5", "s", "-1s", "1 s", "1s2", "9999999h", "1..5s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
