use super::{JsonError, Number, Reader};
use proptest::prelude::*;

/// Skips a whole document and returns the syntax error, if any.
fn check(text: &str) -> Result<(), JsonError> {
    let mut reader = Reader::new(text.as_bytes());
    reader.skip()?;
    reader.finish()
}

#[track_caller]
fn refused(text: &str, message: &'static str, offset: usize) {
    let expected = Err(JsonError::Syntax { message, offset });
    assert_eq!(check(text), expected, "{text}");
}

#[test]
fn documents_are_accepted() {
    for text in [
        "{}",
        "[]",
        " [ ] ",
        "{\"a\":1}",
        "[1,2.5,-3e-7,0,-0,1E+5]",
        "{\"a\":{\"b\":[[],{}]},\"c\":null}",
        "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
        "[NaN,Inf,-Inf,Infinity,-Infinity,true,false,null]",
        "\t\r\n 7 ",
        "\u{feff}{}",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn syntax_errors_have_their_offset() {
    refused("", "The document is empty.", 0);
    refused("  \n", "The document is empty.", 3);
    refused("{} x", "The document root must not be followed by other values.", 3);
    refused("[1,]", "Invalid value.", 3);
    refused("[,1]", "Invalid value.", 1);
    refused("\u{feff}", "Invalid value.", 3);
    refused("[\u{feff}1]", "Invalid value.", 1);
    refused("[1 2]", "Missing a comma or ] after an array element.", 3);
    refused("[1", "Missing a comma or ] after an array element.", 2);
    refused("{\"a\"}", "Missing a colon after a name of object member.", 4);
    refused("{\"a\":1,}", "Missing a name for object member.", 7);
    refused("{a:1}", "Missing a name for object member.", 1);
    refused("{\"a\":1 \"b\":2}", "Missing a comma or } after an object member.", 7);
    refused("{\"a\":1", "Missing a comma or } after an object member.", 6);
    refused("{", "Missing a comma or } after an object member.", 1);
}

#[test]
fn syntax_errors_in_strings_and_numbers_have_their_offset() {
    refused("\"abc", "Missing a closing quotation mark in string.", 4);
    refused("\"\\x\"", "Invalid escape character in string.", 1);
    refused("\"\\u12g4\"", "Incorrect hex digit after \\u escape in string.", 1);
    refused("\"\\u12", "Incorrect hex digit after \\u escape in string.", 1);
    refused("\"\\ud800\"", "The surrogate pair in string is invalid.", 1);
    refused("\"\\udc00\"", "The surrogate pair in string is invalid.", 1);
    refused("\"\\ud800\\u0041\"", "The surrogate pair in string is invalid.", 1);
    refused("\"a\nb\"", "Invalid encoding in string.", 2);
    refused("1.", "Miss fraction part in number.", 2);
    refused("1.e5", "Miss fraction part in number.", 2);
    refused("1e", "Miss exponent in number.", 2);
    refused("1e+", "Miss exponent in number.", 3);
    refused("-", "Invalid value.", 1);
    refused("01", "Invalid value.", 1);
    refused("-01", "Invalid value.", 2);
    refused("+1", "Invalid value.", 0);
    refused(".5", "Invalid value.", 0);
    refused("trux", "Invalid value.", 0);
    refused("nul", "Invalid value.", 0);
    refused("NaM", "Invalid value.", 0);
    refused("'a'", "Invalid value.", 0);
}

#[test]
fn invalid_utf8_is_found() {
    let mut reader = Reader::new(b"\"ab\xff\"");
    let expected = Err(JsonError::Syntax { message: "Invalid encoding in string.", offset: 3 });
    assert_eq!(reader.skip(), expected);
}

#[test]
fn depth_ends_at_a_hundred() {
    let nest = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(check(&nest(100)), Ok(()));
    assert_eq!(check(&nest(101)), Err(JsonError::TooDeep));
    let objects = "{\"a\":".repeat(100_000);
    assert_eq!(check(&objects), Err(JsonError::TooDeep));
}

#[test]
fn strings_are_unescaped() {
    for (text, expected) in [
        ("\"\"", ""),
        ("\"plain é\"", "plain é"),
        ("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\u{8}\u{c}\n\r\t"),
        ("\"a\\u0000b\\uD83D\\uDE00c\"", "a\0b😀c"),
    ] {
        assert_eq!(Reader::new(text.as_bytes()).string().unwrap(), expected);
        let mut out = Vec::new();
        Reader::new(text.as_bytes()).append_string(&mut out).unwrap();
        assert_eq!(out, expected.as_bytes());
    }
}

fn scan(text: &str) -> Number<'_> {
    let (number, end) = Number::scan(text.as_bytes(), 0).unwrap().unwrap();
    assert_eq!(end, text.len());
    number
}

#[test]
fn integers_are_exact_to_64_bits() {
    assert_eq!(scan("18446744073709551615").unsigned(), Some(u64::MAX));
    assert_eq!(scan("18446744073709551616").unsigned(), None);
    assert_eq!(scan("-1").unsigned(), None);
    assert_eq!(scan("-0").unsigned(), Some(0));
    assert_eq!(scan("1.0").unsigned(), None);
    assert_eq!(scan("9223372036854775807").signed(), Some(i64::MAX));
    assert_eq!(scan("-9223372036854775808").signed(), Some(i64::MIN));
    assert_eq!(scan("9223372036854775808").signed(), None);
    assert_eq!(scan("-9223372036854775809").signed(), None);
    assert_eq!(scan("99999999999999999999999").signed(), None);
}

#[test]
fn floats_beyond_range_are_refused_and_tiny_ones_vanish() {
    assert_eq!(scan("1e400").double(), None);
    assert_eq!(scan("1e39").float(), None);
    assert_eq!(scan("3.4028235e38").float(), Some(f32::MAX));
    assert_eq!(scan("1e-400").double(), Some(0.0));
    assert_eq!(scan("-1e-99999999999999").float(), Some(0.0));
    assert_eq!(scan("-0.0").float().map(f32::to_bits), Some((-0.0_f32).to_bits()));
    assert_eq!(scan("-Inf").float(), Some(f32::NEG_INFINITY));
    assert!(scan("-NaN").double().unwrap().is_nan());
}

/// Midpoints between neighbouring `f32`, where rounding twice would be wrong.
#[test]
fn floats_round_once() {
    for (text, expected) in [
        ("1.000000059604644775390625", 1.0_f32),
        ("1.000000059604644775390626", 1.000_000_1),
        ("1.000000059604644776", 1.000_000_1),
        ("1.000000059604644775", 1.0),
        ("16777217", 16_777_216.0),
        ("16777219", 16_777_220.0),
        ("1.1754943157898259e-38", 1.175_494_4e-38),
        ("7.006492321624085e-46", 0.0),
        ("7.006492321624086e-46", 1e-45),
    ] {
        assert_eq!(scan(text).float().map(f32::to_bits), Some(expected.to_bits()), "{text}");
    }
}

fn numeral() -> impl Strategy<Value = String> {
    let short = "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?";
    let long = "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?";
    prop_oneof![
        short,
        long,
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
        any::<f32>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| f64::from(f).to_string()),
        // Numbers exactly between two neighbours, and one digit to either side.
        (any::<u32>(), -1_i64..=1).prop_map(|(bits, off)| {
            let low = f64::from(f32::from_bits(bits & 0x4fff_ffff | 0x2000_0000));
            let half = f64::from_bits((low.to_bits() + (1 << 28)).wrapping_add_signed(off));
            half.to_string()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn floats_equal_the_standard_library(text in numeral()) {
        let single = text.parse::<f32>().ok().filter(|f| f.is_finite());
        let double = text.parse::<f64>().ok().filter(|f| f.is_finite());
        prop_assert_eq!(scan(&text).float().map(f32::to_bits), single.map(f32::to_bits));
        prop_assert_eq!(scan(&text).double().map(f64::to_bits), double.map(f64::to_bits));
    }

    #[test]
    fn strings_survive_writing_and_reading(text in any::<String>()) {
        let mut out = Vec::new();
        super::string(&mut out, &text);
        prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text.clone());
        prop_assert_eq!(Reader::new(&out).string().unwrap(), text);
    }

    #[test]
    fn floats_survive_writing_and_reading(bits in any::<u32>(), wide in any::<u64>()) {
        let (single, double) = (f32::from_bits(bits), f64::from_bits(wide));
        let mut out = Vec::new();
        super::float(&mut out, single);
        let back = Reader::new(&out).ranged(Number::float).unwrap();
        prop_assert!(back.to_bits() == single.to_bits() || back.is_nan() && single.is_nan());
        out.clear();
        super::double(&mut out, double);
        let back = Reader::new(&out).ranged(Number::double).unwrap();
        prop_assert!(back.to_bits() == double.to_bits() || back.is_nan() && double.is_nan());
    }
}
