//! Syntax of Kubernetes quantities.

/// Suffixes of a quantity: decimal and binary SI.
const SUFFIXES: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

/// Reports whether the text is a quantity: a signed decimal number with an SI suffix
/// or an exponent.
pub(crate) fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    is_decimal(number) && (SUFFIXES.contains(&suffix) || is_exponent(suffix))
}

fn is_decimal(number: &str) -> bool {
    number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() <= 1
}

fn is_exponent(suffix: &str) -> bool {
    suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::is_quantity;

    #[test]
    fn knows_quantities() {
        for good in [
            "1", "0.5", "500m", "4Gi", "2Ei", "1e3", "1E-3", "+2", "-1k", ".5", "5.",
        ] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "Gi", "4GB", "1 Gi", "two", "1.2.3", "1e", "--1", "4gi"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
