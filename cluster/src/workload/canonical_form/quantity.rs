//! Kubernetes quantities as whole numbers.

/// Suffixes of quantities, each with its exponent of ten (`DECIMAL`) or of two (`BINARY`).
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Exponent of the smallest unit that an API server keeps: a nano is 10^-9.
const NANO: i32 = 9;

/// Returns one form for all texts of the same quantity; any other text is returned unchanged.
pub(super) fn exact(text: String) -> String {
    match nanos(&text) {
        Some(nanos) => format!("{nanos}n"),
        None => text,
    }
}

/// The same as [`exact`], rounded up to thousandths.
pub(super) fn in_thousandths(text: String) -> String {
    match nanos(&text) {
        Some(nanos) => format!("{}m", round_up(nanos, 1_000_000)),
        None => text,
    }
}

/// Parses a quantity in nanos, rounded up; `None` if the text is not a quantity or the number is too long.
fn nanos(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    let digits: i128 = digits.parse().ok()?;
    let scale = NANO - i32::try_from(part.len()).ok()?;
    let value = match BINARY.iter().find(|(binary, _)| *binary == suffix) {
        Some((_, power)) => times_ten_to(digits.checked_mul(1 << power)?, scale)?,
        None => times_ten_to(digits, scale.checked_add(exponent(suffix)?)?)?,
    };
    Some(sign * value)
}

fn exponent(suffix: &str) -> Option<i32> {
    let known = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix);
    let written = || suffix.strip_prefix(['e', 'E'])?.parse().ok();
    known.map(|(_, exponent)| *exponent).or_else(written)
}

fn times_ten_to(digits: i128, exponent: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent < 0 { Some(round_up(digits, power)) } else { digits.checked_mul(power) }
}

/// Divides an amount by `unit`, rounded away from zero.
fn round_up(amount: i128, unit: i128) -> i128 {
    let whole = amount / unit;
    if amount % unit == 0 { whole } else { whole + amount.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_amount_have_one_form() {
        for (one, other) in [
            ("1", "1000m"),
            ("1Gi", "1024Mi"),
            ("1Gi", "1073741824"),
            ("0.5", "500m"),
            (".5", "5e-1"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("+2", "2"),
            ("0", "0Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.1n", "1n"),
            ("5.", "5"),
            ("-1.5", "-1500m"),
        ] {
            assert_eq!(exact(one.to_owned()), exact(other.to_owned()), "{one} {other}");
        }
        for (one, other) in [("1", "2"), ("1M", "1Mi"), ("1E", "1Ei"), ("1m", "1M"), ("-1", "1")] {
            assert_ne!(exact(one.to_owned()), exact(other.to_owned()), "{one} {other}");
        }
    }

    #[test]
    fn a_resource_is_counted_in_thousandths() {
        let rounded = |text: &str| in_thousandths(text.to_owned());
        assert_eq!(rounded("100u"), "1m");
        assert_eq!(rounded("1"), "1000m");
        assert_eq!(rounded("1.0001"), "1001m");
    }

    #[test]
    fn other_texts_are_unchanged() {
        for text in ["", ".", "Gi", "4GB", "1e", "1.2.3", "--1", "1e999999999", &"9".repeat(50)] {
            assert_eq!(exact(text.to_owned()), text);
        }
    }
}
