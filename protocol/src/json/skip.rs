//! Skips values, with or without checking their syntax.

use super::error::{Expected, JsonError, rapidjson};
use super::reader::{Kind, Reader};
use super::{MAX_DEPTH, text};

impl Reader<'_> {
    /// Skips a value of any type and checks its syntax.
    pub(crate) fn skip(&mut self) -> Result<(), JsonError> {
        let outside = self.depth;
        let mut objects: u128 = 0;
        loop {
            match self.kind()? {
                Kind::Object => {
                    self.begin_object()?;
                    objects |= 1 << self.depth;
                }
                Kind::Array => {
                    self.begin_array()?;
                    objects &= !(1 << self.depth);
                }
                Kind::String => drop(self.string()?),
                Kind::Number => drop(self.number()?),
                Kind::Bool => drop(self.boolean()?),
                Kind::Null => {
                    if !self.null() {
                        return Err(self.syntax(rapidjson::VALUE));
                    }
                }
            }
            // Leave every object and array that ends here, then continue with the next value.
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                let more = if objects >> self.depth & 1 == 1 { self.key()?.is_some() } else { self.element()? };
                if more {
                    break;
                }
            }
        }
    }

    /// Skips an array by counting brackets only; its syntax is checked when the caller reads it later. Other values are
    /// checked at once.
    pub(crate) fn skip_unchecked(&mut self) -> Result<(), JsonError> {
        if !self.at_array() {
            return self.skip();
        }
        let mut depth = self.depth;
        let mut at = self.at;
        while let Some(byte) = self.text.get(at) {
            at += 1;
            match byte {
                b'[' | b'{' if depth == MAX_DEPTH => return Err(JsonError::TooDeep),
                b'[' | b'{' => depth += 1,
                b']' | b'}' if depth == self.depth + 1 => {
                    self.at = at;
                    return Ok(());
                }
                b']' | b'}' => depth -= 1,
                b'"' => at = text::end(self.text, at)?,
                _ => {}
            }
        }
        self.at = self.text.len();
        Err(self.syntax(rapidjson::ARRAY))
    }

    /// Returns the error for a value that is not of the expected type: either a syntax error or a type mismatch.
    #[cold]
    pub(super) fn mismatch(&mut self, expected: Expected) -> JsonError {
        // A value that begins like the expected type but could not be read is misspelt.
        let misspelt = match self.kind() {
            Ok(Kind::Bool) => expected == Expected::Bool,
            Ok(Kind::Number) => expected == Expected::Number,
            Ok(Kind::Object | Kind::Array | Kind::String | Kind::Null) => false,
            Err(error) => return error,
        };
        if misspelt {
            return self.syntax(rapidjson::VALUE);
        }
        match self.clone().skip() {
            Ok(()) => JsonError::Mismatch(expected),
            Err(error) => error,
        }
    }
}
