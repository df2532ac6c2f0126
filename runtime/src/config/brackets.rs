//! Preparation of a text's brackets for the parser.

/// The schema is nine messages deep. The parser recurses per level, so depth must have a bound.
pub(super) const MAX_DEPTH: usize = 32;

/// A text in the form that the parser expects.
pub(super) struct Prepared {
    /// The text with a colon between every field name and list.
    pub(super) text: String,
    /// Offsets of the inserted colons in the original text.
    inserted: Vec<usize>,
}

/// Error: brackets nested deeper than [`MAX_DEPTH`].
pub(super) struct TooDeep {
    /// Offset of the first bracket that is too deep.
    pub(super) offset: usize,
}

impl Prepared {
    /// The offset in the original text, for one in the prepared text.
    pub(super) fn original_offset(&self, offset: usize) -> usize {
        let colons = self.inserted.iter().enumerate();
        let before = colons.take_while(|(i, place)| **place + i < offset).count();
        offset - before
    }
}

/// Inserts the colons of `input [ … ]`: optional in the format and left out by most configurations, but
/// required by the parser.
pub(super) fn prepare(text: &str) -> Result<Prepared, TooDeep> {
    let mut inserted = Vec::new();
    let mut depth = 0_usize;
    let mut after_word = false;
    let mut bytes = text.bytes().enumerate();
    while let Some((offset, byte)) = bytes.next() {
        match byte {
            b'#' => {
                bytes.find(|(_, byte)| *byte == b'\n');
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' | b'\x0b' | b'\x0c' => continue,
            b'{' | b'<' => depth += 1,
            b'}' | b'>' => depth = depth.saturating_sub(1),
            b'[' if after_word => inserted.push(offset),
            b'"' | b'\'' => skip_string(&mut bytes, byte),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(TooDeep { offset });
        }
        after_word = byte.is_ascii_alphanumeric() || byte == b'_';
    }
    Ok(Prepared { text: insert_colons(text, &inserted), inserted })
}

fn insert_colons(text: &str, places: &[usize]) -> String {
    let mut prepared = String::with_capacity(text.len() + places.len());
    let mut from = 0;
    for &place in places {
        prepared.push_str(&text[from..place]);
        prepared.push(':');
        from = place;
    }
    prepared.push_str(&text[from..]);
    prepared
}

fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>, quote: u8) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            // A string ends with its line, if only by mistake; brackets after it count again.
            b'\n' => return,
            _ if byte == quote => return,
            _ => {}
        }
    }
}
