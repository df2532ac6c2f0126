//! Parsers for the values of flags.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;

/// Parses Triton's booleans: `true`, `on`, `1`, `false`, `off`, `0`, in any case.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("expected true, on, 1, false, off or 0".to_owned()),
    }
}

/// Parses a count. Also accepts whole numbers as Helm and YAML print them, such as `600.0` or `4.194304e+06`.
pub(super) fn count<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    whole(text).parse().map_err(|error: T::Err| error.to_string())
}

/// Parses a time in seconds, with or without a fraction, such as `0.5`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = whole(text).parse::<u32>().map(f64::from);
    let seconds = seconds.ok().or_else(|| text.parse().ok());
    seconds
        .filter(|seconds| (0.0..=f64::from(u32::MAX)).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected seconds from 0 to 4294967295".to_owned())
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: u64 = whole(text).parse().map_err(|_| "expected whole milliseconds".to_owned())?;
    Ok(Duration::from_millis(ms))
}

/// Rewrites a whole number that has a decimal point or an exponent as plain digits; returns any other text unchanged.
fn whole(text: &str) -> Cow<'_, str> {
    /// 2^53: a 64-bit floating-point number represents every whole number up to here exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match text.parse::<f64>() {
        Ok(number) if text.contains(['.', 'e', 'E']) && number.fract() == 0.0 && number.abs() < EXACT => {
            Cow::Owned(format!("{number:.0}"))
        }
        Ok(_) | Err(_) => Cow::Borrowed(text),
    }
}

/// Parses an IP address to listen on. `localhost` is the only name allowed, because other names may resolve to several
/// addresses.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().map_err(|_| "expected an IP address such as 0.0.0.0 or ::, or localhost".to_owned())
}

/// Parses a pattern for header names. The pattern may match any part of a name, as in Triton, and ignores case, because
/// header names arrive in lower case.
pub(super) fn pattern(text: &str) -> Result<regex::Regex, String> {
    regex::RegexBuilder::new(text).case_insensitive(true).build().map_err(|error| error.to_string())
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
