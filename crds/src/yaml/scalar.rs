//! Scalars, and the interpretation of unquoted words.

/// A scalar's value and its text as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) value: Value,
    pub(crate) written: String,
}

/// The value of a scalar; for text, the value is the text as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text,
}

impl Scalar {
    /// Creates a quoted scalar, or one tagged as text.
    pub(crate) fn quoted(written: &str) -> Self {
        Self { value: Value::Text, written: written.to_owned() }
    }

    /// Creates an unquoted scalar, interpreted as in YAML 1.1.
    pub(crate) fn plain(written: &str) -> Self {
        Self { value: resolve(written), written: written.to_owned() }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        (self.value == Value::Text).then_some(&*self.written)
    }

    /// Returns the JSON key for this scalar; `None` for null.
    pub(crate) fn key(&self) -> Option<String> {
        match self.value {
            Value::Null => None,
            Value::Boolean(value) => Some(value.to_string()),
            Value::Integer(value) => Some(value.to_string()),
            Value::Float(value) => Some(value.to_string()),
            Value::Text => Some(self.written.clone()),
        }
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

/// Interprets an unquoted word as in YAML 1.1, which kubectl uses: `yes` and `on` are booleans and 0644 is octal.
fn resolve(written: &str) -> Value {
    match written {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => Value::Boolean(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => Value::Boolean(false),
        _ => integer(written).or_else(|| float(written)).unwrap_or(Value::Text),
    }
}

fn integer(written: &str) -> Option<Value> {
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
    let digits = format!("{sign}{}", digits.replace('_', ""));
    i64::from_str_radix(&digits, radix).ok().map(Value::Integer)
}

/// Bound below which a float represents every whole number exactly. Below it, a float without a fraction such as `1e3`
/// is read as an integer, as in JSON.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Parses a float. `inf`, `nan` and `infinity` are words in YAML, but Rust would parse them as numbers.
fn float(written: &str) -> Option<Value> {
    let digits = written.strip_prefix(['+', '-']).unwrap_or(written);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value: f64 = written.replace('_', "").parse().ok()?;
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Some(Value::Integer(value as i64));
    }
    value.is_finite().then_some(Value::Float(value))
}

#[cfg(test)]
mod tests {
    use super::{Value, resolve};

    #[test]
    fn unquoted_words_mean_the_same_as_in_kubectl() {
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
            ("0899", Value::Integer(899)),
            ("1.5", Value::Float(1.5)),
            (".5", Value::Float(0.5)),
            ("1e3", Value::Integer(1000)),
            ("5.", Value::Integer(5)),
            ("1_0.5", Value::Float(10.5)),
            ("-0644", Value::Integer(-0o644)),
            ("+1", Value::Integer(1)),
            ("0b2", Value::Text),
            ("0x", Value::Text),
            ("_1", Value::Text),
            ("1e", Value::Text),
            ("1e400", Value::Text),
            ("1:30", Value::Text),
            ("yEs", Value::Text),
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
