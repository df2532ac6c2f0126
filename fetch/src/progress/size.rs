//! Sizes in bytes for messages.

/// Returns a size with three digits and its unit, such as `12.4 GB`, in powers of 1000.
#[must_use]
pub(crate) fn shown(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut size, mut unit) = (bytes as f64 / 1000.0, 0);
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let digits = if size < 99.95 { 1 } else { 0 };
    format!("{size:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let expected = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (99_949, "99.9 kB"),
            (210_000_000, "210 MB"),
            (999_600_000, "1.0 GB"),
            (12_400_000_000, "12.4 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (bytes, text) in expected {
            assert_eq!(shown(bytes), text);
        }
    }
}
