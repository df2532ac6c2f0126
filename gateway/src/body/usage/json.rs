//! Finds the numbers of the object `usage` in a JSON text as it arrives, without keeping the text.

use super::Usage;

/// A scan of one JSON text. It keeps only the keys on the path to its current position, down to the third level.
#[derive(Debug, Default)]
pub(crate) struct JsonScan {
    lexeme: Lexeme,
    /// Number of open objects and arrays.
    depth: usize,
    levels: [Level; LEVELS],
    usage: Usage,
}

/// Maximum depth of the object with the token counts: in `{"response": {"usage": {"total_tokens": 7}}}` it is three.
const LEVELS: usize = 3;

/// An open object or array.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    is_object: bool,
    /// True before the key of an object's next field.
    is_before_key: bool,
    key: Key,
}

/// Key of an object's field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Other,
    /// An object that may have the usage: `response` of OpenAI's responses, `message` of Anthropic's.
    Answer,
    Usage,
    Total,
    Input,
    Output,
}

/// Part of the text at the scan's current position.
#[derive(Debug, Default)]
enum Lexeme {
    #[default]
    Between,
    Text {
        word: Word,
        is_escaped: bool,
    },
    /// A number of the usage; `None` once it has a character that is not a digit.
    Number(Option<u64>),
}

/// Longest key that matters, in bytes.
const MAX_WORD: usize = 17;

/// The beginning of a text, one byte longer than the longest key that matters.
#[derive(Debug, Default)]
struct Word {
    bytes: [u8; MAX_WORD + 1],
    length: usize,
}

impl JsonScan {
    /// Reads the next bytes of the text.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            bytes = rest;
            match &mut self.lexeme {
                Lexeme::Between => self.begin(*byte),
                Lexeme::Text { is_escaped, .. } if *is_escaped => *is_escaped = false,
                Lexeme::Text { word, is_escaped } => match byte {
                    b'"' => self.end_text(),
                    b'\\' => {
                        *is_escaped = true;
                        word.push(b'\\');
                    }
                    byte => word.push(*byte),
                },
                Lexeme::Number(number) => match byte {
                    b'0'..=b'9' => *number = number.map(|number| with_digit(number, *byte)),
                    b'.' | b'e' | b'E' | b'+' | b'-' => *number = None,
                    byte => {
                        self.end_number();
                        self.begin(*byte);
                    }
                },
            }
        }
    }

    /// Returns the numbers so far.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns true if the text is an object, or the beginning of one.
    pub(super) fn is_object(&self) -> bool {
        self.levels[0].is_object
    }

    /// Reads a byte between two lexemes.
    fn begin(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.open(byte == b'{'),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => {
                if let Some(level) = self.level() {
                    level.is_before_key = level.is_object;
                }
            }
            b'"' => self.lexeme = Lexeme::Text { word: Word::default(), is_escaped: false },
            b'0'..=b'9' if self.field().is_some() => self.lexeme = Lexeme::Number(Some(with_digit(0, byte))),
            b'-' => self.lexeme = Lexeme::Number(None),
            _ => {}
        }
    }

    fn open(&mut self, is_object: bool) {
        self.depth += 1;
        if let Some(level) = self.level() {
            *level = Level { is_object, is_before_key: is_object, key: Key::Other };
        }
    }

    fn end_text(&mut self) {
        let Lexeme::Text { word, .. } = std::mem::take(&mut self.lexeme) else {
            return;
        };
        if let Some(level) = self.level().filter(|level| level.is_before_key) {
            (level.key, level.is_before_key) = (Key::of(&word), false);
        }
    }

    fn end_number(&mut self) {
        let field = self.field();
        if let Lexeme::Number(Some(number)) = std::mem::take(&mut self.lexeme) {
            match field {
                Some(Key::Total) => self.usage.total = Some(number),
                Some(Key::Input) => self.usage.input = number,
                Some(Key::Output) => self.usage.output = number,
                Some(Key::Other | Key::Answer | Key::Usage) | None => {}
            }
        }
    }

    /// Returns the field of the usage whose value comes next; `None` elsewhere.
    fn field(&self) -> Option<Key> {
        let open = self.levels.get(..self.depth)?;
        let keys = [Key::Answer, Key::Usage];
        let (field, path) = open.split_last()?;
        let is_usage = match path {
            [usage] => usage.key == Key::Usage,
            [answer, usage] => [answer.key, usage.key] == keys,
            _ => false,
        };
        (is_usage && open.iter().all(|level| level.is_object)).then_some(field.key)
    }

    /// Returns the innermost open object or array; `None` outside the levels that matter.
    fn level(&mut self) -> Option<&mut Level> {
        self.levels.get_mut(self.depth.checked_sub(1)?)
    }
}

impl Key {
    fn of(word: &Word) -> Self {
        match word.bytes.get(..word.length).unwrap_or_default() {
            b"usage" => Self::Usage,
            b"response" | b"message" => Self::Answer,
            b"total_tokens" => Self::Total,
            b"prompt_tokens" | b"input_tokens" => Self::Input,
            b"completion_tokens" | b"output_tokens" => Self::Output,
            _ => Self::Other,
        }
    }
}

impl Word {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }
}

fn with_digit(number: u64, digit: u8) -> u64 {
    number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
}
