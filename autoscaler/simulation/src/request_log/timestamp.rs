//! Parser for the times in logs.

use std::time::Duration;

use jiff::civil::Date;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;

/// Microseconds since 1970, or since the beginning from which a log counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp(i64);

/// Unit of numeric times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds, possibly with a fraction.
    Seconds,
    /// Milliseconds, thousandths of a second.
    Milliseconds,
    /// Microseconds, millionths of a second.
    Microseconds,
    /// Nanoseconds, thousandths of a microsecond.
    Nanoseconds,
}

impl TimeUnit {
    /// Returns the unit in which the number is a date between 1973 and 5138; seconds for smaller numbers.
    fn of(value: f64) -> Self {
        match value.abs() {
            size if size >= 1e17 => Self::Nanoseconds,
            size if size >= 1e14 => Self::Microseconds,
            size if size >= 1e11 => Self::Milliseconds,
            _ => Self::Seconds,
        }
    }

    /// Returns the unit in the suffix of a name such as `started_ms`.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (_, last) = name.rsplit_once('_')?;
        match last.to_ascii_lowercase().as_str() {
            "ms" | "millis" | "milliseconds" => Some(Self::Milliseconds),
            "us" | "micros" | "microseconds" => Some(Self::Microseconds),
            "ns" | "nanos" | "nanoseconds" => Some(Self::Nanoseconds),
            _ => None,
        }
    }

    fn micros(self) -> f64 {
        match self {
            Self::Seconds => 1e6,
            Self::Milliseconds => 1e3,
            Self::Microseconds => 1.0,
            Self::Nanoseconds => 1e-3,
        }
    }
}

impl Timestamp {
    /// Parses a number of seconds, milliseconds, microseconds or nanoseconds since 1970, an RFC 3339 time (a blank may
    /// replace the `T`; without a zone it is UTC), or the date of an access log.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::parse_in(None, text)
    }

    /// Parses a time; numbers are in `unit`, or in the unit guessed from their size.
    pub(super) fn parse_in(unit: Option<TimeUnit>, text: &str) -> Option<Self> {
        let text = text.trim();
        number(text, unit).or_else(|| date(text)).map(Self)
    }

    /// Parses a date, or a number that is one after 1973. Smaller numbers may count anything.
    pub(super) fn parse_moment(text: &str) -> Option<Self> {
        // The unit can be guessed from 1973 on.
        Self::parse(text).filter(|time| time.0 >= 100_000_000_000_000)
    }

    /// Returns the absolute difference between the two times.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.abs_diff(earlier.0))
    }
}

/// Parses a number; a comma may separate the decimals.
fn number(text: &str, unit: Option<TimeUnit>) -> Option<i64> {
    let value = text.parse::<f64>().ok();
    let value = value.or_else(|| text.replacen(',', ".", 1).parse().ok())?;
    let micros = value * unit.unwrap_or_else(|| TimeUnit::of(value)).micros();
    // The limit is about the year 5138; NaN fails the comparison as well.
    (micros.abs() <= 1e17).then(|| micros.round() as i64)
}

/// Parses a date with its time of day and zone, in microseconds since 1970.
fn date(text: &str) -> Option<i64> {
    let (day, clock) = dated(text).or_else(|| yearless(text))?;
    // jiff reads decimals after a point only.
    let clock = clock.replacen(',', ".", 1);
    let (time, zone) = prefix("%H:%M:%S%.f", &clock)?;
    let at = offset(zone.trim())?.to_timestamp(day.to_datetime(time.to_time().ok()?));
    at.ok().map(jiff::Timestamp::as_microsecond)
}

/// Formats of a date: RFC 3339, Go's loggers and nginx, access logs.
const DATES: [&str; 3] = ["%Y-%m-%d", "%Y/%m/%d", "%d/%b/%Y"];

/// Parses a date with a year; returns it with the following time of day.
fn dated(text: &str) -> Option<(Date, &str)> {
    let (parts, rest) = DATES.iter().find_map(|format| prefix(format, text))?;
    let day = parts.to_date().ok().filter(|day| (1900..=5000).contains(&day.year()))?;
    // A `T`, a blank or a colon stands between date and time of day; gin writes a dash between two blanks.
    let rest = rest.strip_prefix(|_: char| true)?;
    Some((day, rest.strip_prefix("- ").unwrap_or(rest)))
}

/// Year of dates without one. It is not a leap year: 29 February is refused rather than misplaced.
const ANY_YEAR: i16 = 2001;

/// Parses dates without a year: of journals, `Oct  9 13:55:36`, and of Kubernetes' and Triton's logs, `I1009
/// 13:55:36.000000`.
fn yearless(text: &str) -> Option<(Date, &str)> {
    let numeric = text.strip_prefix(['I', 'W', 'E', 'F']).and_then(|day| prefix("%m%d", day));
    let (mut parts, rest) = numeric.or_else(|| prefix("%b %d", text))?;
    parts.set_year(Some(ANY_YEAR)).ok()?;
    Some((parts.to_date().ok()?, rest.strip_prefix(' ')?))
}

/// Parses the beginning of a text; returns the parsed parts with the remaining text.
fn prefix<'a>(format: &str, text: &'a str) -> Option<(BrokenDownTime, &'a str)> {
    let (parts, length) = BrokenDownTime::parse_prefix(format, text).ok()?;
    Some((parts, text.get(length..)?))
}

/// Returns the offset of a zone such as `Z`, `+01:00` or `-0700`; an empty zone is UTC. A name may follow, as in `+0000
/// UTC` or `+01:00[Europe/Paris]`.
fn offset(zone: &str) -> Option<Offset> {
    let bracket = zone.strip_suffix(']').and_then(|zone| zone.split_once('['));
    let zone = bracket.map_or(zone, |(zone, _)| zone);
    let zone = zone.strip_suffix(" UTC").unwrap_or(zone);
    match zone {
        "" | "Z" | "z" | "UTC" | "GMT" => Some(Offset::UTC),
        _ if zone.starts_with(['+', '-']) => ZONES.parse_time_zone(zone).ok()?.to_fixed_offset().ok(),
        _ => None,
    }
}

/// Parser of the offsets of time zones.
static ZONES: DateTimeParser = DateTimeParser::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_moment_is_read_in_many_formats() {
        let ways = [
            "1767323045",
            "1767323045.0",
            "1767323045000",
            "1767323045000000",
            "1767323045000000000",
            "2026-01-02T03:04:05Z",
            "2026-01-02 03:04:05",
            "2026-01-02T03:04:05.000",
            "2026-01-02T04:04:05+01:00",
            "2026-01-01 20:04:05 -0700",
            "02/Jan/2026:03:04:05 +0000",
            "2026/01/02 - 03:04:05",
            "2026-01-02 03:04:05.000 +0000 UTC",
            "2026-01-02T04:04:05+01:00[Europe/Paris]",
            "2026-01-02T04:04:05+01",
            "2026-01-02t03:04:05z",
            "2026-01-02 03:04:05,000",
            "2026/01/02 03:04:05",
            "2/Jan/2026:03:04:05 GMT",
        ];
        for way in ways {
            assert_eq!(Timestamp::parse(way), Some(Timestamp(1_767_323_045_000_000)), "{way}");
        }
        let any_year = Timestamp::parse("2001-01-02T03:04:05Z");
        for way in ["Jan  2 03:04:05", "Jan 2 03:04:05", "I0102 03:04:05.000000"] {
            assert_eq!(Timestamp::parse(way), any_year, "{way}");
        }
        let half = Timestamp::parse("2024-02-29T12:00:00.5Z").unwrap();
        assert_eq!(half, Timestamp(1_709_208_000_500_000));
    }

    #[test]
    fn text_that_is_not_a_time_is_refused() {
        for text in [
            "",
            "x",
            "NaN",
            "inf",
            "1e300",
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "Feb 29 00:00:00",
            "I0230 00:00:00",
            "2026-01-02",
            "2026-01-02T25:00:00Z",
            "2026-01-02T03:04:05 PST",
            "32/Jam/2026:03:04:05 +0000",
            "é026-01-02T03:04:05Z",
            "10.0.0.1",
            "1899-12-31T00:00:00Z",
            "2026-01-02T03:04:05 America/New_York",
            "1/1/2026 00:00:00",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
