//! Errors of the JSON reader.

use std::ops::Range;

/// Error of the [`Reader`](super::Reader); the caller adds the name of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// The text is not JSON from this byte on.
    Syntax {
        /// One of the messages in [`rapidjson`].
        message: &'static str,
        /// Offset in bytes from the start of the text.
        offset: usize,
    },
    /// There are more than [`MAX_DEPTH`](super::MAX_DEPTH) nested arrays and objects.
    TooDeep,
    /// The value has another type than expected.
    Mismatch(Expected),
    /// The expected type cannot hold the number in these bytes of the text.
    OutOfRange(Range<usize>),
}

/// Type of value that a caller expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Object,
    Array,
    String,
    Bool,
    Number,
    /// An integer from 0 to `u64::MAX`.
    Unsigned,
    /// An integer that fits an `i64`.
    Signed,
}

impl Expected {
    /// Returns the message of Triton's JSON library for this mismatch.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Object => "attempt to access JSON non-object as object",
            Self::Array => "attempt to access JSON non-array as array",
            Self::String => "attempt to access JSON non-string as string",
            Self::Bool => "attempt to access JSON non-boolean as boolean",
            Self::Number => "attempt to access JSON non-number as double",
            Self::Unsigned => "attempt to access JSON non-unsigned-integer as unsigned-integer",
            Self::Signed => "attempt to access JSON non-signed-integer as signed-integer",
        }
    }
}

/// Messages of RapidJSON, which users of Triton know and search for.
pub(crate) mod rapidjson {
    /// A document of nothing but whitespace.
    pub(crate) const EMPTY: &str = "The document is empty.";
    /// A second value after the first.
    pub(crate) const TRAILING: &str = "The document root must not be followed by other values.";
    /// No value where one is required.
    pub(crate) const VALUE: &str = "Invalid value.";
    /// An object member that does not begin with a quote.
    pub(crate) const NAME: &str = "Missing a name for object member.";
    /// No colon after a member's name.
    pub(crate) const COLON: &str = "Missing a colon after a name of object member.";
    /// An object member followed by neither comma nor brace.
    pub(crate) const OBJECT: &str = "Missing a comma or } after an object member.";
    /// An array element followed by neither comma nor bracket.
    pub(crate) const ARRAY: &str = "Missing a comma or ] after an array element.";
    /// A string without a closing quote.
    pub(crate) const QUOTE: &str = "Missing a closing quotation mark in string.";
    /// A backslash before a character that cannot be escaped.
    pub(crate) const ESCAPE: &str = "Invalid escape character in string.";
    /// `\u` without four hexadecimal digits.
    pub(crate) const HEX: &str = "Incorrect hex digit after \\u escape in string.";
    /// Half of a surrogate pair.
    pub(crate) const SURROGATE: &str = "The surrogate pair in string is invalid.";
    /// Bytes that are not UTF-8, or a bare control character.
    pub(crate) const ENCODING: &str = "Invalid encoding in string.";
    /// No digit after a decimal point.
    pub(crate) const FRACTION: &str = "Miss fraction part in number.";
    /// No digit after `e`.
    pub(crate) const EXPONENT: &str = "Miss exponent in number.";
}
