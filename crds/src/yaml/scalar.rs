//! Scalars: what a word means when it is written without quotes.

/// A scalar and how it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) value: Value,
    pub(crate) written: String,
}

/// What a scalar means. A text is what was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text,
}

impl Scalar {
    /// A scalar in quotes, or one that is tagged as text.
    pub(crate) fn quoted(written: &str) -> Self {
        Self {
            value: Value::Text,
            written: written.to_owned(),
        }
    }

    /// A scalar without quotes.
    pub(crate) fn plain(written: &str) -> Self {
        Self {
            value: resolve(written),
            written: written.to_owned(),
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        (self.value == Value::Text).then_some(&*self.written)
    }

    pub(crate) fn described(&self) -> String {
        let written = &self.written;
        match self.value {
            Value::Null => "nothing".to_owned(),
            Value::Boolean(_) => format!("the boolean `{written}`"),
            Value::Integer(_) | Value::Float(_) => format!("the number `{written}`"),
            Value::Text => format!("the text `{written}`"),
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self.value {
            Value::Null => serde_json::Value::Null,
            Value::Boolean(value) => value.into(),
            Value::Integer(value) => value.into(),
            Value::Float(value) => value.into(),
            Value::Text => self.written.clone().into(),
        }
    }
}

/// YAML 1.1, because kubectl reads that: `yes` and `on` are booleans and 0644 is octal. What kubectl
/// refuses must not pass here.
fn resolve(written: &str) -> Value {
    match written {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            Value::Boolean(true)
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            Value::Boolean(false)
        }
        _ => integer(written)
            .map(Value::Integer)
            .or_else(|| float(written).map(Value::Float))
            .unwrap_or(Value::Text),
    }
}

fn integer(written: &str) -> Option<i64> {
    let digits = written.strip_prefix(['+', '-']).unwrap_or(written);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &*lower),
    };
    let sign = if written.starts_with('-') { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{}", digits.replace('_', "")), radix).ok()
}

/// Rust takes `inf`, `nan` and `infinity` for numbers; YAML takes them for words.
fn float(written: &str) -> Option<f64> {
    let digits = written.strip_prefix(['+', '-']).unwrap_or(written);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    written.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::{Value, resolve};

    #[test]
    fn means_what_kubectl_means() {
        for (written, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("on", Value::Boolean(true)),
            ("No", Value::Boolean(false)),
            ("0644", Value::Integer(0o644)),
            ("0o644", Value::Integer(0o644)),
            ("0x1F", Value::Integer(31)),
            ("-0b11", Value::Integer(-3)),
            ("1_000", Value::Integer(1000)),
            ("0", Value::Integer(0)),
            ("0899", Value::Float(899.0)),
            ("1.5", Value::Float(1.5)),
            (".5", Value::Float(0.5)),
            ("1e3", Value::Float(1000.0)),
            ("1.2.3", Value::Text),
            ("500m", Value::Text),
            ("inf", Value::Text),
            ("2024-01-01", Value::Text),
            ("-", Value::Text),
        ] {
            assert_eq!(resolve(written), value, "{written}");
        }
    }
}
