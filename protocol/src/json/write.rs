//! Appends JSON values to a buffer.

/// Writes a string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    // All bytes except control characters, quotes and backslashes are copied, including UTF-8.
    while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        other => {
            let digits = [HEX[usize::from(other >> 4)], HEX[usize::from(other & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Writes an integer of any width.
#[inline]
pub(crate) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes the shortest text that reads back as the same `f32`. Writes `NaN` and `±Infinity` as bare words, as Triton
/// does.
#[inline]
pub(crate) fn float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        non_finite(out, f64::from(value));
    }
}

/// Writes the shortest text that reads back as the same `f64`. Writes `NaN` and `±Infinity` as bare words, as Triton
/// does.
#[inline]
pub(crate) fn double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        non_finite(out, value);
    }
}

#[cold]
fn non_finite(out: &mut Vec<u8>, value: f64) {
    let word = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    out.extend_from_slice(word.as_bytes());
}
