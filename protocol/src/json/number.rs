//! Scans JSON numbers once and converts them exactly.

use super::JsonError;
use super::error::rapidjson;

/// A scanned number. Conversions are exact or correctly rounded, never approximate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<'a> {
    text: &'a [u8],
    kind: NumberKind,
    negative: bool,
    /// The digits as an integer; exact only if `digits <= EXACT_DIGITS`.
    mantissa: u64,
    digits: usize,
    /// Decimal exponent: the value is `mantissa * 10^exponent`.
    exponent: i32,
}

/// The notation of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    /// Digits without a decimal point and exponent.
    Integer,
    /// Digits with a decimal point, an exponent, or both.
    Decimal,
    NotANumber,
    /// The word `Inf` or `Infinity`.
    Infinite,
}

/// Maximum number of digits that always fit a `u64`.
const EXACT_DIGITS: usize = 19;

/// Powers of ten that an `f64` represents exactly, because 5^22 < 2^53.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Exponents beyond this all overflow or underflow an `f64`; the cap keeps the sums from wrapping.
const EXPONENT_CAP: i32 = 100_000;

impl<'a> Number<'a> {
    /// Scans the number at offset `at` and returns it with the position after it; `None` if no number begins there.
    ///
    /// # Errors
    /// Fails if digits are missing or there is a leading zero.
    #[inline(always)]
    pub(crate) fn scan(text: &'a [u8], at: usize) -> Result<Option<(Self, usize)>, JsonError> {
        let negative = text.get(at) == Some(&b'-');
        let first = at + usize::from(negative);
        let mut digits = Digits::default();
        let mut end = digits.take(text, first);
        let whole = end - first;
        if whole == 0 {
            return non_finite(text, at, negative);
        }
        if whole > 1 && text[first] == b'0' {
            // RapidJSON ends the number after the zero and reports an error at the next byte.
            return Err(syntax(rapidjson::VALUE, first + 1));
        }
        let mut kind = NumberKind::Integer;
        let mut exponent = 0;
        if let Some(b'.' | b'e' | b'E') = text.get(end) {
            kind = NumberKind::Decimal;
            (exponent, end) = decimal(text, end, &mut digits)?;
        }
        let number =
            Self { text: &text[at..end], kind, negative, mantissa: digits.value, digits: digits.count, exponent };
        Ok(Some((number, end)))
    }

    /// Returns the notation in which the number was written.
    pub(crate) fn kind(&self) -> NumberKind {
        self.kind
    }

    /// Converts to an unsigned integer; `None` if the number is negative, too large or not an integer.
    #[inline(always)]
    pub(crate) fn unsigned(&self) -> Option<u64> {
        if self.kind != NumberKind::Integer || (self.negative && self.mantissa != 0) {
            return None;
        }
        if self.digits <= EXACT_DIGITS {
            return Some(self.mantissa);
        }
        std::str::from_utf8(self.text).ok()?.parse().ok()
    }

    /// Converts to a signed integer; `None` if the number does not fit or is not an integer.
    #[inline(always)]
    pub(crate) fn signed(&self) -> Option<i64> {
        if self.kind != NumberKind::Integer {
            return None;
        }
        if self.digits <= EXACT_DIGITS && !self.negative {
            return i64::try_from(self.mantissa).ok();
        }
        if self.digits <= EXACT_DIGITS {
            return 0_i64.checked_sub_unsigned(self.mantissa);
        }
        std::str::from_utf8(self.text).ok()?.parse().ok()
    }

    /// Converts to the nearest `f64`; `None` if a finite number is out of range.
    #[inline(always)]
    pub(crate) fn double(&self) -> Option<f64> {
        // Clinger's fast path: two exactly represented operands and one correctly rounded operation.
        if self.digits <= EXACT_DIGITS
            && self.mantissa <= 1 << 53
            && let Some(value) = self.scaled()
        {
            return Some(self.sign(value));
        }
        self.parse(f64::INFINITY, f64::NAN, f64::is_finite)
    }

    /// Converts to the nearest `f32`; `None` if a finite number is out of range.
    #[inline(always)]
    pub(crate) fn float(&self) -> Option<f32> {
        if self.digits <= EXACT_DIGITS
            && let Some(value) = self.scaled()
        {
            if self.mantissa == 0 {
                return Some(self.sign(0.0) as f32);
            }
            // `value` was rounded twice, so its error is less than four units in the last place. Narrowing can only go
            // wrong if `value` lies that close to the midpoint of two adjacent `f32`. Narrowing drops 29 bits, whose
            // midpoint is 2^28.
            let dropped = value.to_bits() & ((1 << 29) - 1);
            let normal = f64::from(f32::MIN_POSITIVE)..f64::from(f32::MAX);
            if dropped.abs_diff(1 << 28) > 4 && normal.contains(&value) {
                return Some(self.sign(value) as f32);
            }
        }
        self.parse(f32::INFINITY, f32::NAN, f32::is_finite)
    }

    /// Computes the magnitude, with one rounding for the mantissa and one for the power. Returns `None` if the power is
    /// not exact or the number is not finite.
    #[inline(always)]
    fn scaled(&self) -> Option<f64> {
        if matches!(self.kind, NumberKind::NotANumber | NumberKind::Infinite) {
            return None;
        }
        let power = *POWERS.get(self.exponent.unsigned_abs() as usize)?;
        let mantissa = self.mantissa as f64;
        Some(if self.exponent < 0 { mantissa / power } else { mantissa * power })
    }

    #[inline(always)]
    fn sign(&self, magnitude: f64) -> f64 {
        if self.negative { -magnitude } else { magnitude }
    }

    #[cold]
    fn parse<F>(&self, infinity: F, nan: F, finite: fn(F) -> bool) -> Option<F>
    where
        F: std::str::FromStr + std::ops::Neg<Output = F> + Copy,
    {
        match self.kind {
            NumberKind::NotANumber => Some(nan),
            NumberKind::Infinite if self.negative => Some(-infinity),
            NumberKind::Infinite => Some(infinity),
            NumberKind::Integer | NumberKind::Decimal => {
                let value: F = std::str::from_utf8(self.text).ok()?.parse().ok()?;
                finite(value).then_some(value)
            }
        }
    }
}

/// Digits read so far, before and after the decimal point.
#[derive(Default)]
struct Digits {
    value: u64,
    count: usize,
}

impl Digits {
    /// Reads digits from `at` on and returns the position after them.
    #[inline(always)]
    fn take(&mut self, text: &[u8], mut at: usize) -> usize {
        let start = at;
        while let Some(eight) = eight_digits(text, at) {
            self.value = self.value.wrapping_mul(100_000_000).wrapping_add(eight);
            at += 8;
        }
        while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            self.value = self.value.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        self.count += at - start;
        at
    }
}

/// Reads eight digits at once, because JSON tensors consist mostly of long mantissas.
#[inline(always)]
fn eight_digits(text: &[u8], at: usize) -> Option<u64> {
    let chunk = text.get(at..)?.first_chunk::<8>()?;
    let word = u64::from_le_bytes(*chunk);
    let above = word.wrapping_add(0x4646_4646_4646_4646);
    let below = word.wrapping_sub(0x3030_3030_3030_3030);
    if (above | below) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Digits are combined to pairs, then to fours, then to all eight: each step multiplies the more significant half
    // and adds the other.
    let pairs = below.wrapping_mul(10).wrapping_add(below >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let all = fours.wrapping_mul(10_000).wrapping_add(fours >> 32);
    Some(all & 0xffff_ffff)
}

/// Reads `.digits` and `e±digits`. Returns the decimal exponent of the mantissa and the position after.
#[inline(always)]
fn decimal(text: &[u8], at: usize, digits: &mut Digits) -> Result<(i32, usize), JsonError> {
    let mut end = at;
    let mut exponent = 0_i32;
    if text.get(end) == Some(&b'.') {
        let start = end + 1;
        end = digits.take(text, start);
        if end == start {
            return Err(syntax(rapidjson::FRACTION, end));
        }
        exponent = -i32::try_from(end - start).map_or(EXPONENT_CAP, |n| n.min(EXPONENT_CAP));
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let written;
        (written, end) = power(text, end + 1)?;
        exponent += written;
    }
    Ok((exponent, end))
}

fn power(text: &[u8], at: usize) -> Result<(i32, usize), JsonError> {
    let negative = text.get(at) == Some(&b'-');
    let signed = matches!(text.get(at), Some(b'-' | b'+'));
    let start = at + usize::from(signed);
    let mut end = start;
    let mut power = 0_i32;
    while let Some(digit @ b'0'..=b'9') = text.get(end) {
        power = (power * 10 + i32::from(digit - b'0')).min(EXPONENT_CAP);
        end += 1;
    }
    if end == start {
        return Err(syntax(rapidjson::EXPONENT, end));
    }
    Ok((if negative { -power } else { power }, end))
}

/// Scans the bare words for NaN and infinity.
#[cold]
fn non_finite(text: &[u8], at: usize, negative: bool) -> Result<Option<(Number<'_>, usize)>, JsonError> {
    let first = at + usize::from(negative);
    let rest = text.get(first..).unwrap_or_default();
    // The longer word is tried first, because `Inf` is its prefix.
    let words = [("NaN", NumberKind::NotANumber), ("Infinity", NumberKind::Infinite), ("Inf", NumberKind::Infinite)];
    for (word, kind) in words {
        if rest.starts_with(word.as_bytes()) {
            let end = first + word.len();
            let number = Number { text: &text[at..end], kind, negative, mantissa: 0, digits: 0, exponent: 0 };
            return Ok(Some((number, end)));
        }
    }
    if negative {
        return Err(syntax(rapidjson::VALUE, first));
    }
    Ok(None)
}

fn syntax(message: &'static str, offset: usize) -> JsonError {
    JsonError::Syntax { message, offset }
}
