//! Parses directory names that are versions.

/// Returns the version that a directory's name stands for; `None` for a name that is not a number, has a leading zero
/// or exceeds Triton's `int64`.
pub(in crate::repository) fn number(name: &str) -> Option<u64> {
    let leads_with_zero = name.len() > 1 && name.starts_with('0');
    let digits = !leads_with_zero && name.bytes().all(|byte| byte.is_ascii_digit());
    let version = digits.then(|| name.parse::<u64>().ok())??;
    i64::try_from(version).is_ok().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn only_plain_numbers_are_versions() {
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("1"), Some(1));
        assert_eq!(number("9223372036854775807"), Some(i64::MAX as u64));
        for name in ["", "00", "01", "x", "1x", "+1", "-1", "1.0", " 1", "9223372036854775808", "٣"] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
