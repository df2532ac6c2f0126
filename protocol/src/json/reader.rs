//! A pull reader for JSON text.

use std::borrow::Cow;

use super::error::{Expected, JsonError, rapidjson};
use super::number::Number;
use super::{MAX_DEPTH, text};

/// A cursor over JSON text. Callers read values of the types they expect; nothing is stored.
///
/// ```text
///   begin_object (key value)* key=None        begin_array (element=true value)* element=false
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// True directly after an object or array was entered, where no comma may come.
    entered: bool,
}

/// The position of a value, for [`Reader::resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadPosition {
    at: usize,
    depth: usize,
}

/// Type of a value, as shown by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    /// A number, which begins with a digit, a minus, or one of the words `NaN`, `Inf` and `Infinity`.
    Number,
    Bool,
    Null,
}

/// Byte order mark, which some editors and libraries write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<'a> Reader<'a> {
    /// Returns a reader before the first value of `text`, which may begin with a byte order mark (RFC 8259, 8.1).
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let marked = text.starts_with(BYTE_ORDER_MARK);
        Self { text, at: if marked { BYTE_ORDER_MARK.len() } else { 0 }, depth: 0, entered: false }
    }

    /// Returns a reader at `position`, which was taken in the same text.
    pub(crate) fn resume(text: &'a [u8], position: ReadPosition) -> Self {
        Self { text, at: position.at, depth: position.depth, entered: false }
    }

    /// Returns the position of the next value.
    pub(crate) fn position(&self) -> ReadPosition {
        ReadPosition { at: self.at, depth: self.depth }
    }

    /// Returns the number of objects and arrays around the next value.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the whole text, read and unread.
    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the number of unread bytes.
    pub(crate) fn remaining(&self) -> usize {
        self.text.len() - self.at
    }

    /// Checks that nothing but whitespace follows.
    pub(crate) fn finish(&mut self) -> Result<(), JsonError> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(self.syntax(rapidjson::TRAILING)),
        }
    }

    /// Returns the type of the next value without reading it.
    pub(crate) fn kind(&mut self) -> Result<Kind, JsonError> {
        match self.next_byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            None if self.text.iter().all(u8::is_ascii_whitespace) => Err(self.syntax(rapidjson::EMPTY)),
            Some(_) | None => Err(self.syntax(rapidjson::VALUE)),
        }
    }

    /// Enters an object, before its first key.
    pub(crate) fn begin_object(&mut self) -> Result<(), JsonError> {
        self.expect(b'{', Expected::Object)?;
        self.enter()
    }

    /// Enters an array, before its first element.
    pub(crate) fn begin_array(&mut self) -> Result<(), JsonError> {
        self.expect(b'[', Expected::Array)?;
        self.enter()
    }

    /// Reads the next member's name and stops before its value; `None` means that the object has ended.
    pub(crate) fn key(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        match self.next_byte() {
            Some(b'}') => {
                self.leave();
                return Ok(None);
            }
            Some(b',') if !self.entered => self.at += 1,
            Some(_) if self.entered => {}
            Some(_) | None => return Err(self.syntax(rapidjson::OBJECT)),
        }
        self.entered = false;
        if self.next_byte() != Some(b'"') {
            return Err(self.syntax(rapidjson::NAME));
        }
        let name = self.string()?;
        if self.next_byte() != Some(b':') {
            return Err(self.syntax(rapidjson::COLON));
        }
        self.at += 1;
        Ok(Some(name))
    }

    /// Stops before the next element. Returns `false` if the array has ended.
    #[inline(always)]
    pub(crate) fn element(&mut self) -> Result<bool, JsonError> {
        match self.next_byte() {
            Some(b',') if !self.entered => {
                self.at += 1;
                Ok(true)
            }
            Some(b']') => {
                self.leave();
                Ok(false)
            }
            Some(_) if self.entered => {
                self.entered = false;
                Ok(true)
            }
            Some(_) | None => Err(self.syntax(rapidjson::ARRAY)),
        }
    }

    /// Returns true if the next value is an array.
    #[inline(always)]
    pub(crate) fn at_array(&mut self) -> bool {
        self.next_byte() == Some(b'[')
    }

    /// Reads a string, which is borrowed if it has no escapes.
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

    /// Reads a string and appends its UTF-8 to `out`; allocates nothing else.
    pub(crate) fn append_string(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        self.expect(b'"', Expected::String)?;
        self.pieces(|piece| out.extend_from_slice(piece.as_bytes()))
    }

    /// Reads `true` or `false`.
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
            Err(self.mismatch(Expected::Bool))
        }
    }

    /// Skips `null`. Returns `false` if the next value is something else.
    pub(crate) fn null(&mut self) -> bool {
        self.next_byte();
        let null = self.text[self.at..].starts_with(b"null");
        self.at += if null { 4 } else { 0 };
        null
    }

    /// Reads a number without converting it.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Result<Number<'a>, JsonError> {
        self.next_byte();
        match Number::scan(self.text, self.at)? {
            Some((number, end)) => {
                self.at = end;
                Ok(number)
            }
            None => Err(self.mismatch(Expected::Number)),
        }
    }

    /// Reads an integer from 0 to `u64::MAX`.
    #[inline(always)]
    pub(crate) fn unsigned(&mut self) -> Result<u64, JsonError> {
        self.convert(Expected::Unsigned, |number| number.unsigned())
    }

    /// Reads an integer that fits an `i64`.
    #[inline(always)]
    pub(crate) fn signed(&mut self) -> Result<i64, JsonError> {
        self.convert(Expected::Signed, |number| number.signed())
    }

    /// Reads an unsigned integer of fewer bits. If it is too large, the error contains its byte range.
    #[inline(always)]
    pub(crate) fn narrow_unsigned<T: TryFrom<u64>>(&mut self) -> Result<T, JsonError> {
        self.next_byte();
        let start = self.at;
        let value = self.unsigned()?;
        T::try_from(value).map_err(|_| JsonError::OutOfRange(start..self.at))
    }

    /// Reads a signed integer of fewer bits. If it is too large, the error contains its byte range.
    #[inline(always)]
    pub(crate) fn narrow_signed<T: TryFrom<i64>>(&mut self) -> Result<T, JsonError> {
        self.next_byte();
        let start = self.at;
        let value = self.signed()?;
        T::try_from(value).map_err(|_| JsonError::OutOfRange(start..self.at))
    }

    /// Reads a number and converts it. If it does not fit, the error contains its byte range.
    #[inline(always)]
    pub(crate) fn ranged<T>(&mut self, convert: impl FnOnce(&Number<'a>) -> Option<T>) -> Result<T, JsonError> {
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

    /// Reads a string in pieces, including the closing quote.
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

    /// Skips whitespace and returns the next byte without consuming it.
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
            Err(self.mismatch(expected))
        }
    }

    fn enter(&mut self) -> Result<(), JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.depth += 1;
        self.entered = true;
        Ok(())
    }

    #[inline(always)]
    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
        self.entered = false;
    }

    pub(super) fn syntax(&self, message: &'static str) -> JsonError {
        JsonError::Syntax { message, offset: self.at }
    }
}
