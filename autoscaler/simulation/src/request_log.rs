//! Reads the arrival times of requests from a log.

mod format;
mod lines;
mod spread;
#[cfg(test)]
mod tests;
mod timestamp;

use std::io::{self, BufRead};
use std::time::Duration;

use self::format::Format;
use self::lines::Lines;
pub use self::timestamp::TimeUnit;
use self::timestamp::Timestamp;

/// The requests of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    /// Times since the first request, in order.
    pub arrivals: Vec<Duration>,
    /// Lines that were skipped.
    pub bad: Vec<BadRow>,
    /// Resolution of the log's times.
    pub resolution: Resolution,
}

/// Resolution of a log's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// Whole seconds, some of which have several requests; their times within these seconds are random.
    Seconds,
    /// Finer than a second, or no second has several requests.
    #[default]
    Finer,
}

/// A line without a readable time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Number of the line, from 1.
    pub line: u64,
    /// Clause that says what is wrong with the line.
    pub problem: String,
}

/// Options for reading a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Column or key with the time, by name, or a column by its number; `None` looks for the usual names.
    pub time_column: Option<String>,
    /// Unit of numeric times; `None` guesses it from each number, as seconds if no unit yields a date after 1973.
    pub time_unit: Option<TimeUnit>,
    /// Most lines that may be skipped.
    pub most_bad: usize,
}

/// Error for a log that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log could not be read to its end.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The log contains no request.
    #[error("it contains no request: give a log with a line for each request")]
    Empty,
    /// No line has a readable time.
    #[error("no line has a readable time; the first is line {}: {}. Name the column or key of the time with --time-column; {TIMES}", .0.line, .0.problem)]
    NoneRead(BadRow),
    /// The log is compressed; the field names a program that unpacks it.
    #[error("it is compressed: unpack it first, as in `{0} FILE | weir simulate -`")]
    Compressed(&'static str),
    /// The log is UTF-16 text.
    #[error("it is UTF-16: convert it first, as in `iconv -f UTF-16 -t UTF-8 FILE | weir simulate -`")]
    WideText,
    /// The log is not text.
    #[error("it is not text: give a log with a line for each request, as CSV, an access log or JSON lines")]
    Binary,
    /// The log is one JSON array.
    #[error("it is one JSON array: give a line for each request, as in `jq -c '.[]' FILE | weir simulate -`")]
    JsonArray,
    /// A JSON object spans several lines.
    #[error("it is JSON over several lines: give a line for each request, as in `jq -c . FILE | weir simulate -`")]
    JsonOverLines,
    /// A quoted field is not closed.
    #[error(
        "line {0}: a field begins with a quote that is not closed within the next thousand lines: close it, or double quotes within a field"
    )]
    OpenQuote(u64),
    /// The first line has no column or key that can be taken for the time.
    #[error(
        "line {line}: no {what} is called {wanted}, and it is unclear which one holds the time; the {what}s are {columns}: name the one with --time-column; {TIMES}"
    )]
    NoTime {
        /// Number of the line, from 1.
        line: u64,
        /// `column` or `key`, for the message.
        what: &'static str,
        /// The name that was looked for.
        wanted: String,
        /// The names of the columns or keys.
        columns: String,
    },
    /// A line is longer than any line of a log.
    #[error("line {0} is longer than 1 MiB: this is not a log with a line for each request")]
    LongLine(u64),
    /// Too many lines have no readable time.
    #[error("more than {most} lines have no readable time; the first is line {}: {}. Correct them, or raise --max-bad-lines", .first.line, .first.problem)]
    TooManyBad {
        /// Most lines that may be skipped.
        most: usize,
        /// The first skipped line.
        first: BadRow,
    },
    /// The log has too many requests to be simulated.
    #[error("it has more than {MOST_REQUESTS} requests: give a part of it")]
    TooMany,
    /// The log covers too many days.
    #[error(
        "{days} days lie between its first and its last request, but only {MOST_DAYS} can be simulated: give a part of it, or correct a time that is far from the others"
    )]
    TooLong {
        /// Days between the first and the last request.
        days: u64,
    },
}

/// Accepted formats of times, for messages.
const TIMES: &str = "a time is written 2026-01-31T13:55:36Z, 2026-01-31 13:55:36 or 31/Jan/2026:13:55:36 +0000, or is a number of seconds, \
     milliseconds, microseconds or nanoseconds since 1970";

/// Most requests of a log. Each takes some tens of bytes, so they fit into the memory of any machine.
const MOST_REQUESTS: usize = 50_000_000;

/// Most days of a log. The simulation keeps a state for each second.
const MOST_DAYS: u64 = 60;

/// Lines from which the format is detected: a header, comments and a few requests.
const SAMPLE: usize = 20;

impl RequestLog {
    /// Reads a log: CSV with a time column, an access log, or JSON lines with a time.
    ///
    /// # Errors
    /// [`LogError`], with the number of the line.
    pub fn read(reader: impl BufRead, options: &LogOptions) -> Result<Self, LogError> {
        let mut lines = Lines::new(reader);
        let (format, skipped) = Format::detect(lines.peek(SAMPLE)?, options)?;
        let mut header = None;
        for _ in 0..skipped {
            header = lines.next()?.map(|line| line.text);
        }
        let (times, bad) = rows(&mut lines, &format, header.as_deref(), options)?;
        let (arrivals, resolution) = spread::spread(since_first(times, &bad)?);
        Ok(Self { arrivals, bad, resolution })
    }

    /// Returns true if all times are evenly spaced by a second or more. That is typical of samples exported from a
    /// monitor, not of requests.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let gap = |pair: &[Duration]| match pair {
            [from, until] => until.saturating_sub(*from),
            _ => Duration::ZERO,
        };
        let mut gaps = self.arrivals.windows(2).map(gap);
        let first = gaps.next().unwrap_or_default();
        let is_long = self.arrivals.len() >= FEWEST_SAMPLES && first >= Duration::from_secs(1);
        is_long && gaps.all(|gap| gap == first)
    }
}

/// Number of evenly spaced times that cannot be chance.
const FEWEST_SAMPLES: usize = 10;

/// Returns the times of the remaining lines, and the lines without one.
fn rows(
    lines: &mut Lines<impl BufRead>,
    format: &Format,
    header: Option<&str>,
    options: &LogOptions,
) -> Result<(Vec<Timestamp>, Vec<BadRow>), LogError> {
    let (mut times, mut bad) = (Vec::new(), Vec::new());
    while let Some(mut line) = lines.next()? {
        if let Some(delimiter) = format.quoting() {
            lines.complete(&mut line, delimiter)?;
        }
        match format.time(&line.text, options.time_unit) {
            Ok(time) => times.push(time),
            // Concatenated logs repeat their headers and comments.
            Err(_) if line.text.starts_with('#') || header == Some(&*line.text) => {}
            Err(problem) => bad.push(BadRow { line: line.number, problem }),
        }
        check(&times, &bad, options)?;
    }
    Ok((times, bad))
}

fn check(times: &[Timestamp], bad: &[BadRow], options: &LogOptions) -> Result<(), LogError> {
    match bad.first() {
        Some(first) if bad.len() > options.most_bad => {
            Err(LogError::TooManyBad { most: options.most_bad, first: first.clone() })
        }
        _ if times.len() > MOST_REQUESTS => Err(LogError::TooMany),
        _ => Ok(()),
    }
}

fn since_first(mut times: Vec<Timestamp>, bad: &[BadRow]) -> Result<Vec<Duration>, LogError> {
    times.sort_unstable();
    let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
        let row = bad.first().cloned();
        return Err(row.map_or(LogError::Empty, LogError::NoneRead));
    };
    let days = last.since(first).as_secs() / (24 * 3600);
    if days >= MOST_DAYS {
        return Err(LogError::TooLong { days });
    }
    Ok(times.into_iter().map(|time| time.since(first)).collect())
}
