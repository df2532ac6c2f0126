//! When requests came, from a log that someone has.

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
    /// Their times since the first, in order.
    pub arrivals: Vec<Duration>,
    /// Lines that were left out.
    pub bad: Vec<BadRow>,
    /// How fine its times are.
    pub resolution: Resolution,
}

/// How finely a log tells times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// In whole seconds, of which some have several requests: their places within these seconds are drawn by chance.
    Seconds,
    /// In parts of a second, or no second has several requests.
    #[default]
    Finer,
}

/// A line without a time that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The line, the first being 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

/// How to read a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The column or key with the time, by name, or a column by its number; unset looks for the usual names.
    pub time_column: Option<String>,
    /// The unit of times that are numbers; unset takes that in which each lies in our time, and else seconds.
    pub time_unit: Option<TimeUnit>,
    /// Lines that may be left out at most.
    pub most_bad: usize,
}

/// A log that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log could not be read to its end.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// There is nothing in it.
    #[error("there is no request in it: give a log with a line for each request")]
    Empty,
    /// No line has a time.
    #[error("none of its lines has a time that can be read; the first is line {}: {}. Name the column or key of the time with --time-column; {TIMES}", .0.line, .0.problem)]
    NoneRead(BadRow),
    /// The log is a compressed file, which this program unpacks.
    #[error("it is compressed: unpack it first, as in `{0} FILE | weir simulate -`")]
    Compressed(&'static str),
    /// The log is text of two bytes a letter.
    #[error("it is UTF-16: convert it first, as in `iconv -f UTF-16 -t UTF-8 FILE | weir simulate -`")]
    WideText,
    /// The log is not text.
    #[error("it is not text: give a log with a line for each request, as CSV, an access log or JSON lines")]
    Binary,
    /// The log is one JSON array.
    #[error("it is one JSON array: give a line for each request, as in `jq -c '.[]' FILE | weir simulate -`")]
    JsonArray,
    /// A JSON object takes several lines.
    #[error("it is JSON over several lines: give a line for each request, as in `jq -c . FILE | weir simulate -`")]
    JsonOverLines,
    /// A quote is not closed.
    #[error(
        "line {0}: a field begins with a quote that is not closed within the next thousand lines: close it, or double quotes within a field"
    )]
    OpenQuote(u64),
    /// Its first line tells of no time.
    #[error(
        "line {line}: no {what} is called {wanted}, and not exactly one holds a time; the {what}s are {columns}: name the one with --time-column; {TIMES}"
    )]
    NoTime {
        /// The line, the first being 1.
        line: u64,
        /// What it has: columns, or keys.
        what: &'static str,
        /// The names that were looked for.
        wanted: String,
        /// The columns there are.
        columns: String,
    },
    /// A line is longer than any line of a log.
    #[error("line {0} is longer than 1 MiB: this is not a log with a line for each request")]
    LongLine(u64),
    /// Too many lines were left out.
    #[error("more than {most} lines have no time that can be read; the first is line {}: {}. Correct them, or raise --max-bad-lines", .first.line, .first.problem)]
    TooManyBad {
        /// The lines that may be left out.
        most: usize,
        /// The first of them.
        first: BadRow,
    },
    /// It is too long to be simulated.
    #[error("it has more than {MOST_REQUESTS} requests: give a part of it")]
    TooMany,
    /// Times lie too far apart.
    #[error(
        "{days} days lie between its first and its last request, and {MOST_DAYS} can be simulated: give a part of it, or correct a time that is far from the others"
    )]
    TooLong {
        /// The days between them.
        days: u64,
    },
}

/// The times that are read, for messages.
const TIMES: &str = "a time is written 2026-01-31T13:55:36Z, 2026-01-31 13:55:36 or 31/Jan/2026:13:55:36 +0000, or is a number of seconds, \
     milliseconds, microseconds or nanoseconds since 1970";

/// Requests that fit into the memory of any machine: each takes some tens of bytes.
const MOST_REQUESTS: usize = 50_000_000;

/// A state is kept for each second.
const MOST_DAYS: u64 = 60;

/// Lines by which the format is told: a header, comments, and a few requests.
const SAMPLE: usize = 20;

impl RequestLog {
    /// Reads a log: CSV with a time column, an access log, or JSON lines with a time.
    ///
    /// # Errors
    /// [`LogError`], which names the line.
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

    /// Reports whether all times are equally far apart, a second or more: those of samples are, as a monitor exports
    /// them, and those of requests are not.
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

/// Times that are not equally far apart by chance.
const FEWEST_SAMPLES: usize = 10;

/// The times of the rest of a log, and the lines that have none.
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
            // Logs that are put together have their headers and comments again and again.
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
