//! Parsers of flag values.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Parses Triton's booleans: `true`, `on`, `1`, `false`, `off`, `0`, in any case.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("expected true, on, 1, false, off or 0".to_owned()),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: u32 = text
        .parse()
        .map_err(|_| "expected whole seconds from 0 to 4294967295".to_owned())?;
    Ok(Duration::from_secs(seconds.into()))
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: u64 = text
        .parse()
        .map_err(|_| "expected whole milliseconds".to_owned())?;
    Ok(Duration::from_millis(ms))
}

/// Parses an address to listen on; of names only `localhost`, for others would be ambiguous.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .map_err(|_| "expected an IP address such as 0.0.0.0 or ::, or localhost".to_owned())
}

/// Parses a pattern for header names. As in Triton it may match any part of a name; case is ignored, for
/// names arrive in lower case.
pub(super) fn pattern(text: &str) -> Result<regex::Regex, String> {
    let pattern = regex::RegexBuilder::new(text)
        .case_insensitive(true)
        .build();
    pattern.map_err(|error| error.to_string())
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
