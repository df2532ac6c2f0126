//! Prepares the brackets in a configuration's text for the parser.

/// Limit on the nesting of brackets. The schema is nine messages deep, and the parser recurses per level, so the depth
/// must be limited.
pub(super) const MAX_DEPTH: usize = 32;

/// A text in the form that the parser expects.
pub(super) struct Prepared {
    /// The text with a colon between every field name and its list.
    pub(super) text: String,
    /// Offsets of the inserted colons in the original text.
    inserted: Vec<usize>,
}

/// Error: brackets nested deeper than [`MAX_DEPTH`].
pub(super) struct TooDeep {
    /// Offset of the first bracket that is nested too deeply.
    pub(super) offset: usize,
}

impl Prepared {
    /// Converts an offset in the prepared text into one in the original text.
    pub(super) fn original_offset(&self, offset: usize) -> usize {
        let colons = self.inserted.iter().enumerate();
        let before = colons.take_while(|(i, place)| **place + i < offset).count();
        offset - before
    }
}

/// Inserts colons before lists, as in `input [ … ]`. The format makes them optional and most configurations leave them
/// out, but the parser requires them.
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
            // A string ends at the end of its line, even if the quote is missing, so that later brackets count again.
            b'\n' => return,
            _ if byte == quote => return,
            _ => {}
        }
    }
}
