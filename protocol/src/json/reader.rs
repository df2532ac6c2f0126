//! The pull reader.

use std::borrow::Cow;

use super::error::{Expected, JsonError, what};
use super::number::Number;
use super::{MAX_DEPTH, text};

/// Walks JSON text value by value. Callers ask for what they expect; nothing is stored.
///
/// ```text
///   begin_object (key value)* key=None        begin_array (element=true value)* element=false
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// Whether a container was just begun, so that no comma is due.
    fresh: bool,
}

/// The place of a value, to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    at: usize,
    depth: usize,
}

/// What the next value is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `{`.
    Object,
    /// `[`.
    Array,
    /// `"`.
    String,
    /// A digit, a minus or one of the bare words.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

impl<'a> Reader<'a> {
    /// Stands before the first value of `text`.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            fresh: false,
        }
    }

    /// Stands again where `mark` was taken; `text` must be the text it was taken in.
    pub(crate) fn resume(text: &'a [u8], mark: Mark) -> Self {
        Self {
            text,
            at: mark.at,
            depth: mark.depth,
            fresh: false,
        }
    }

    /// The place of the next value.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            depth: self.depth,
        }
    }

    /// Containers around the next value.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Bytes not yet read.
    pub(crate) fn remaining(&self) -> usize {
        self.text.len() - self.at
    }

    /// Checks that nothing but whitespace follows.
    pub(crate) fn finish(&mut self) -> Result<(), JsonError> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(self.syntax(what::TRAILING)),
        }
    }

    /// What the next value is.
    pub(crate) fn kind(&mut self) -> Result<Kind, JsonError> {
        match self.next_byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            None if self.text.iter().all(u8::is_ascii_whitespace) => Err(self.syntax(what::EMPTY)),
            Some(_) | None => Err(self.syntax(what::VALUE)),
        }
    }

    /// Enters an object.
    pub(crate) fn begin_object(&mut self) -> Result<(), JsonError> {
        self.expect(b'{', Expected::Object)?;
        self.enter()
    }

    /// Enters an array.
    pub(crate) fn begin_array(&mut self) -> Result<(), JsonError> {
        self.expect(b'[', Expected::Array)?;
        self.enter()
    }

    /// The next member's name, standing before its value; `None` leaves the object.
    pub(crate) fn key(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        match self.next_byte() {
            Some(b'}') => {
                self.leave();
                return Ok(None);
            }
            Some(b',') if !self.fresh => self.at += 1,
            Some(_) if self.fresh => {}
            Some(_) | None => return Err(self.syntax(what::OBJECT)),
        }
        self.fresh = false;
        if self.next_byte() != Some(b'"') {
            return Err(self.syntax(what::NAME));
        }
        let name = self.string()?;
        if self.next_byte() != Some(b':') {
            return Err(self.syntax(what::COLON));
        }
        self.at += 1;
        Ok(Some(name))
    }

    /// Whether another element follows, standing before it; `false` leaves the array.
    #[inline(always)]
    pub(crate) fn element(&mut self) -> Result<bool, JsonError> {
        match self.next_byte() {
            Some(b',') if !self.fresh => {
                self.at += 1;
                Ok(true)
            }
            Some(b']') => {
                self.leave();
                Ok(false)
            }
            Some(_) if self.fresh => {
                self.fresh = false;
                Ok(true)
            }
            Some(_) | None => Err(self.syntax(what::ARRAY)),
        }
    }

    /// Whether the next value is an array.
    #[inline(always)]
    pub(crate) fn at_array(&mut self) -> bool {
        self.next_byte() == Some(b'[')
    }

    /// A string, borrowed where it has no escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"', Expected::String)?;
        let (run, end) = text::run(self.text, self.at)?;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Cow::Borrowed(run));
        }
        let mut unescaped = String::from(run);
        self.at = end;
        self.pieces(|piece| unescaped.push_str(piece))?;
        Ok(Cow::Owned(unescaped))
    }

    /// Appends a string's UTF-8 to `out`; allocates nothing else.
    pub(crate) fn append_string(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        self.expect(b'"', Expected::String)?;
        self.pieces(|piece| out.extend_from_slice(piece.as_bytes()))
    }

    /// `true` or `false`.
    #[inline(always)]
    pub(crate) fn boolean(&mut self) -> Result<bool, JsonError> {
        self.next_byte();
        let rest = &self.text[self.at..];
        if rest.starts_with(b"true") {
            self.at += 4;
            Ok(true)
        } else if rest.starts_with(b"false") {
            self.at += 5;
            Ok(false)
        } else {
            Err(self.other_than(Expected::Bool))
        }
    }

    /// Steps over `null`; `false` when something else follows.
    pub(crate) fn null(&mut self) -> bool {
        self.next_byte();
        let null = self.text[self.at..].starts_with(b"null");
        self.at += if null { 4 } else { 0 };
        null
    }

    /// A number, not yet converted.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Result<Number<'a>, JsonError> {
        self.next_byte();
        match Number::scan(self.text, self.at)? {
            Some((number, end)) => {
                self.at = end;
                Ok(number)
            }
            None => Err(self.other_than(Expected::Number)),
        }
    }

    /// An integer from 0 to `u64::MAX`.
    #[inline(always)]
    pub(crate) fn unsigned(&mut self) -> Result<u64, JsonError> {
        self.convert(Expected::Unsigned, |number| number.unsigned())
    }

    /// An integer that fits an `i64`.
    #[inline(always)]
    pub(crate) fn signed(&mut self) -> Result<i64, JsonError> {
        self.convert(Expected::Signed, |number| number.signed())
    }

    /// An unsigned integer of fewer bits; the place of one that is too wide is told.
    #[inline(always)]
    pub(crate) fn narrow_unsigned<T: TryFrom<u64>>(&mut self) -> Result<T, JsonError> {
        self.next_byte();
        let start = self.at;
        let value = self.unsigned()?;
        T::try_from(value).map_err(|_| JsonError::OutOfRange(start..self.at))
    }

    /// A signed integer of fewer bits; the place of one that is too wide is told.
    #[inline(always)]
    pub(crate) fn narrow_signed<T: TryFrom<i64>>(&mut self) -> Result<T, JsonError> {
        self.next_byte();
        let start = self.at;
        let value = self.signed()?;
        T::try_from(value).map_err(|_| JsonError::OutOfRange(start..self.at))
    }

    /// A number as `T`; the place of one that does not fit is told.
    #[inline(always)]
    pub(crate) fn ranged<T>(
        &mut self,
        convert: impl FnOnce(&Number<'a>) -> Option<T>,
    ) -> Result<T, JsonError> {
        self.next_byte();
        let start = self.at;
        let number = self.number()?;
        convert(&number).ok_or(JsonError::OutOfRange(start..self.at))
    }

    #[inline(always)]
    fn convert<T>(
        &mut self,
        expected: Expected,
        convert: impl FnOnce(&Number<'a>) -> Option<T>,
    ) -> Result<T, JsonError> {
        match self.number() {
            Ok(number) => convert(&number).ok_or(JsonError::Mismatch(expected)),
            Err(JsonError::Mismatch(_)) => Err(JsonError::Mismatch(expected)),
            Err(error) => Err(error),
        }
    }

    /// Reads a string's pieces up to and with the closing quote.
    fn pieces(&mut self, mut piece: impl FnMut(&str)) -> Result<(), JsonError> {
        loop {
            let (run, end) = text::run(self.text, self.at)?;
            piece(run);
            self.at = end;
            if self.text[end] == b'"' {
                self.at += 1;
                return Ok(());
            }
            let (character, after) = text::escape(self.text, end)?;
            piece(character.encode_utf8(&mut [0; 4]));
            self.at = after;
        }
    }

    /// Skips whitespace and peeks.
    #[inline(always)]
    fn next_byte(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn expect(&mut self, byte: u8, expected: Expected) -> Result<(), JsonError> {
        if self.next_byte() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.other_than(expected))
        }
    }

    fn enter(&mut self) -> Result<(), JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.depth += 1;
        self.fresh = true;
        Ok(())
    }

    #[inline(always)]
    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
        self.fresh = false;
    }

    pub(super) fn syntax(&self, what: &'static str) -> JsonError {
        JsonError::Syntax {
            what,
            offset: self.at,
        }
    }
}
