//! Syntax of Kubernetes quantities.

/// Suffixes of quantities: decimal and binary SI prefixes.
const SUFFIXES: [&str; 16] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Returns true if the text is a quantity: a signed decimal number with an SI suffix or an exponent.
pub(crate) fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    is_decimal(number) && (SUFFIXES.contains(&suffix) || is_exponent(suffix))
}

/// Returns the value of a quantity; `None` if the text is not a quantity.
#[must_use]
pub fn quantity_value(text: &str) -> Option<f64> {
    if !is_quantity(text) {
        return None;
    }
    let suffix = text.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    let (number, suffix) = text.split_at(suffix);
    // A number that ends in a digit may have an exponent, which the floating-point parser accepts too.
    Some(number.parse::<f64>().ok()? * scale(suffix)?)
}

fn scale(suffix: &str) -> Option<f64> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let at = |suffixes: &[&str]| suffixes.iter().position(|s| *s == suffix);
    let power = |base: f64, exponent: usize, of_one: i32| {
        let exponent = i32::try_from(exponent).ok()?;
        Some(base.powi(exponent - of_one))
    };
    match (at(&decimal), at(&binary)) {
        (Some(exponent), _) => power(1000.0, exponent, 3),
        (None, Some(exponent)) => power(1024.0, exponent, -1),
        (None, None) => None,
    }
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
    use super::{is_quantity, quantity_value};

    #[test]
    fn quantities_are_recognised() {
        for good in ["1", "0.5", "500m", "4Gi", "2Ei", "1e3", "1E-3", "+2", "-1k", ".5", "5."] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "Gi", "4GB", "1 Gi", "two", "1.2.3", "1e", "--1", "4gi"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }

    #[test]
    fn quantities_have_values() {
        let values = [
            ("0.05", 0.05),
            ("50m", 0.05),
            ("5e-2", 0.05),
            ("1", 1.0),
            ("-2k", -2000.0),
            ("1.5Ki", 1536.0),
            (".5", 0.5),
        ];
        for (text, value) in values {
            let read = quantity_value(text).unwrap();
            assert!((read - value).abs() < 1e-9, "{text} is {read}");
        }
        assert_eq!((quantity_value("4GB"), quantity_value("")), (None, None));
    }
}
