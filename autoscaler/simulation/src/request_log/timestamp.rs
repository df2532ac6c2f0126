//! Parser for the times in logs.

use std::time::Duration;

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

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

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

fn date(text: &str) -> Option<i64> {
    let (day, rest) = dated(text).or_else(|| yearless(text))?;
    let seconds: f64 = day as f64 * 86_400.0 + clock(rest.get(..8)?)?;
    let (fraction, zone) = fraction(rest.get(8..)?)?;
    let seconds = seconds - offset(zone.trim())?;
    Some((seconds * 1e6) as i64 + (fraction * 1e6).round() as i64)
}

/// Returns the day, in days since 1970, and the following time of day.
fn dated(text: &str) -> Option<(i64, &str)> {
    match text.split_once('/') {
        Some((day, rest)) if day.len() <= 2 => access_day(day, rest),
        _ => {
            let rest = text.get(11..)?;
            let rest = rest.strip_prefix("- ").unwrap_or(rest);
            Some((civil_day(text.get(..10)?)?, rest))
        }
    }
}

/// Year of dates without one. It is not a leap year: 29 February is refused rather than misplaced.
const ANY_YEAR: i64 = 2001;

/// Parses dates without a year: of journals, `Oct  9 13:55:36`, and of Kubernetes' and Triton's logs, `I1009
/// 13:55:36.000000`.
fn yearless(text: &str) -> Option<(i64, &str)> {
    let (first, rest) = text.split_once(' ')?;
    let number = first.strip_prefix(['I', 'W', 'E', 'F']);
    if let Some(number) = number.filter(|number| number.len() == 4) {
        let (month, day) = (digits(number.get(..2)?)?, digits(number.get(2..)?)?);
        return Some((days(ANY_YEAR, month, day)?, rest));
    }
    let (day, rest) = rest.trim_start().split_once(' ')?;
    Some((days(ANY_YEAR, month(first)?, digits(day)?)?, rest))
}

/// Parses `10/Oct/2025:13:55:36 -0700`, split at its first slash.
fn access_day<'a>(day: &str, rest: &'a str) -> Option<(i64, &'a str)> {
    let (month, rest) = rest.split_once('/')?;
    let (year, rest) = rest.split_once(':')?;
    let day = days(digits(year)?, self::month(month)?, digits(day)?)?;
    Some((day, rest))
}

fn month(name: &str) -> Option<i64> {
    let index = MONTHS.iter().position(|month| *month == name)?;
    Some(index as i64 + 1)
}

/// Returns the days since 1970 of `2025-10-10` or `2025/10/10`.
fn civil_day(text: &str) -> Option<i64> {
    let mut parts = text.split(['-', '/']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    days(digits(year)?, digits(month)?, digits(day)?)
}

/// Returns the days since 1970 of a date in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let fits = (1900..=5000).contains(&year) && (1..=12).contains(&month);
    if !fits || !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let century = year / 100;
    Some(year * 365 + year / 4 - century + century / 4 + of_year - 719_468)
}

/// Returns the seconds since midnight of `13:55:36`.
fn clock(text: &str) -> Option<f64> {
    let mut parts = text.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes, seconds) = (digits(hours)?, digits(minutes)?, digits(seconds)?);
    let fits = hours < 24 && minutes < 60 && seconds <= 60 && parts.next().is_none();
    fits.then_some((hours * 3600 + minutes * 60 + seconds) as f64)
}

/// Parses a fraction of a second after `.` or `,`; returns it with the remaining text.
fn fraction(text: &str) -> Option<(f64, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']) else {
        return Some((0.0, text));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (number, zone) = rest.split_at(end.unwrap_or(rest.len()));
    Some((format!("0.{number}").parse().ok()?, zone))
}

/// Returns the offset in seconds of a zone such as `Z`, `+01:00` or `-0700`; an empty zone is UTC. A name may follow,
/// as in `+0000 UTC` or `+01:00[Europe/Paris]`.
fn offset(zone: &str) -> Option<f64> {
    let bracket = zone.strip_suffix(']').and_then(|zone| zone.split_once('['));
    let zone = bracket.map_or(zone, |(zone, _)| zone);
    let zone = zone.strip_suffix(" UTC").unwrap_or(zone);
    if matches!(zone, "" | "Z" | "z" | "UTC" | "GMT") {
        return Some(0.0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1.0, rest),
        ("-", rest) => (-1.0, rest),
        _ => return None,
    };
    let rest = rest.replace(':', "");
    let hours = digits(rest.get(..2)?)?;
    let minutes = rest.get(2..).filter(|rest| !rest.is_empty());
    let minutes = minutes.map_or(Some(0), digits)?;
    Some(sign * (hours * 3600 + minutes * 60) as f64)
}

fn digits(text: &str) -> Option<i64> {
    let fits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

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
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
