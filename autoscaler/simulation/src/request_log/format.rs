//! Formats of logs, and the place of the time in each.

use serde_json::Value;

use super::lines::{LogLine, split};
use super::timestamp::{TimeUnit, Timestamp};
use super::{LogError, LogOptions};

/// Format of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A line of columns for each request.
    Columns {
        delimiter: char,
        /// Index of the column with the time, from 0.
        time: usize,
        /// Number of columns that the time spans, for instance two for a date and a time of day.
        width: usize,
        /// Unit in the name of the column, if any.
        unit: Option<TimeUnit>,
    },
    /// Common or combined log format and similar ones, with the time in brackets.
    Access,
    /// A JSON object for each request, with the path of the time's key, joined by dots.
    Json(String),
}

/// Usual names of columns and keys with times, in lower case, preferred ones first.
const NAMES: [&str; 24] = [
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "t_s",
    "t",
    "datetime",
    "date",
    "arrival",
    "arrived_at",
    "arrival_time",
    "start_time",
    "start",
    "created_at",
    "received_at",
    "request_received_timestamp",
    "receive_timestamp",
    "event_time",
    "time_iso8601",
    "time_local",
    "msec",
    "logged_at",
    "time_unix_nano",
    "epoch_second",
];

impl Format {
    /// Detects the format from the first lines, and returns it with the number of lines before the first request.
    pub(super) fn detect(sample: &[LogLine], options: &LogOptions) -> Result<(Self, usize), LogError> {
        let chosen = options.time_column.as_deref();
        let Some(first) = sample.first() else {
            return Err(LogError::Empty);
        };
        if first.text.starts_with('[') && is_json(sample) {
            return Err(LogError::JsonArray);
        }
        if sample.iter().any(|line| object(&line.text).is_some()) {
            return json_key(sample, chosen).map(|key| (Self::Json(key), 0));
        }
        if first.text == "{" {
            return Err(LogError::JsonOverLines);
        }
        let bracketed = sample.iter().filter(|line| bracketed(&line.text).is_some());
        if chosen.is_none() && bracketed.count() * 2 > sample.len() {
            return Ok((Self::Access, 0));
        }
        let comments = sample.iter().take_while(|line| line.text.starts_with('#')).count();
        let rows = sample.get(comments..).unwrap_or_default();
        let found = columns(rows, chosen)?;
        Ok((found.format, comments + found.header))
    }

    /// Returns the delimiter if the format has quoted fields that may span lines.
    pub(super) fn quoting(&self) -> Option<char> {
        match self {
            Self::Columns { delimiter, .. } => Some(*delimiter).filter(|c| *c != ' '),
            Self::Access | Self::Json(_) => None,
        }
    }

    /// Returns the time of a line. The error says what is wrong.
    pub(super) fn time(&self, text: &str, unit: Option<TimeUnit>) -> Result<Timestamp, String> {
        match self {
            Self::Columns { delimiter, time, width, unit: named } => {
                let fields = split(text, *delimiter);
                let field = fields.get(*time..*time + *width);
                let field = field.ok_or_else(|| format!("it has no column {}", time + width))?;
                parsed(&field.join(" "), unit.or(*named))
            }
            Self::Access => bracketed(text).ok_or_else(|| "it has no time in brackets".to_owned()),
            Self::Json(key) => json(text, key, unit.or_else(|| TimeUnit::of_name(key))),
        }
    }
}

/// Returns true for an array of objects, on one line or several.
fn is_json(sample: &[LogLine]) -> bool {
    let text: String = sample.iter().map(|line| line.text.as_str()).take(2).collect();
    text.trim_start_matches(['[', ' ']).starts_with('{')
}

fn object(text: &str) -> Option<Value> {
    let value = text.starts_with('{').then(|| serde_json::from_str(text).ok());
    value.flatten()
}

/// Chooses the key of the time: one of the usual names or the only key that holds a date after 1973, else a usual name
/// with a number.
fn json_key(sample: &[LogLine], chosen: Option<&str>) -> Result<String, LogError> {
    if let Some(name) = chosen {
        return Ok(name.to_owned());
    }
    let mut first = None;
    for line in sample {
        let Some(value) = object(&line.text) else {
            continue;
        };
        let mut keys = Vec::new();
        flatten("", &value, &mut keys);
        let (names, values): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        if let Some(index) = choose(&names, &values) {
            return Ok(names.get(index).cloned().unwrap_or_default());
        }
        first.get_or_insert(LogError::NoTime {
            line: line.number,
            what: "key",
            wanted: USUAL.to_owned(),
            columns: shown(&names),
        });
    }
    Err(first.unwrap_or(LogError::Empty))
}

/// Collects the paths and values of an object, with keys joined by dots.
fn flatten(path: &str, value: &Value, keys: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{key}"), value, keys);
            }
        }
        Value::String(text) => keys.push((path.to_owned(), text.clone())),
        Value::Number(number) => keys.push((path.to_owned(), number.to_string())),
        Value::Null | Value::Bool(_) | Value::Array(_) => {}
    }
}

/// Usual names, for messages.
const USUAL: &str = "time or timestamp";

/// Chooses the index of the time from the names and values of a request.
fn choose(names: &[String], values: &[String]) -> Option<usize> {
    let is_moment = |index: &usize| {
        let value = values.get(*index);
        value.is_some_and(|value| Timestamp::parse_moment(value).is_some())
    };
    let is_time = |index: &usize| {
        let value = values.get(*index);
        value.is_some_and(|value| Timestamp::parse(value).is_some())
    };
    let usual = || NAMES.iter().filter_map(|name| by_name(names, name));
    let mut inner = NAMES.iter().filter_map(|name| by_inner_name(names, name));
    let mut moments = (0..names.len()).filter(is_moment);
    let only = moments.next().filter(|_| moments.next().is_none());
    let named = usual().find(is_moment);
    let moment = named.or(only).or_else(|| inner.find(is_moment));
    moment.or_else(|| usual().find(is_time))
}

fn json(text: &str, name: &str, unit: Option<TimeUnit>) -> Result<Timestamp, String> {
    let value = object(text).ok_or("it is not JSON")?;
    match at_path(&value, name) {
        Some(Value::String(time)) => parsed(time, unit),
        Some(Value::Number(time)) => parsed(&time.to_string(), unit),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
            Err(format!("it has no time under {name}"))
        }
    }
}

/// Returns the value at a key, or at a path of keys joined by dots.
fn at_path<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let direct = value.get(name);
    direct.or_else(|| name.split('.').try_fold(value, |inner, key| inner.get(key)))
}

fn parsed(field: &str, unit: Option<TimeUnit>) -> Result<Timestamp, String> {
    let short: String = field.chars().take(40).collect();
    // A word may contain its name: `ts=2026-01-01T00:00:00Z`.
    let value = field.split_once('=').map_or(field, |(_, value)| value);
    let time = Timestamp::parse_in(unit, value.trim_matches('"'));
    time.ok_or_else(|| format!("{short:?} is not a time"))
}

/// Returns the first time in brackets.
fn bracketed(text: &str) -> Option<Timestamp> {
    let parts = text.split('[').skip(1);
    let mut inner = parts.filter_map(|part| part.split_once(']'));
    inner.find_map(|(time, _)| Timestamp::parse_moment(time))
}

/// Detected columns, and the number of header lines.
struct Found {
    format: Format,
    header: usize,
}

/// Delimiters of columns. Commas and blanks also occur in text, so they are tried last.
const DELIMITERS: [char; 5] = ['\t', ';', '|', ',', ' '];

/// Detects the columns with the first delimiter that yields a time.
fn columns(rows: &[LogLine], chosen: Option<&str>) -> Result<Found, LogError> {
    let Some(first) = rows.first() else {
        return Err(LogError::Empty);
    };
    let (words, others): (Vec<_>, Vec<_>) = DELIMITERS.iter().partition(|c| **c == ' ');
    let there = others.into_iter().filter(|c| first.text.contains(*c));
    let mut there: Vec<char> = there.collect();
    if there.is_empty() {
        there.push(',');
    }
    let tried = there.iter().copied().chain(words);
    let found = tried.filter_map(|delimiter| by_delimiter(rows, delimiter, chosen));
    found.into_iter().next().ok_or_else(|| {
        let likely = there.iter().max_by_key(|c| split(&first.text, **c).len());
        LogError::NoTime {
            line: first.number,
            what: "column",
            wanted: chosen.unwrap_or(USUAL).to_owned(),
            columns: shown(&split(&first.text, likely.copied().unwrap_or(','))),
        }
    })
}

fn by_delimiter(rows: &[LogLine], delimiter: char, chosen: Option<&str>) -> Option<Found> {
    let first = split(&rows.first()?.text, delimiter);
    let second = rows.get(1).map(|row| split(&row.text, delimiter));
    let is_header = (0..first.len()).all(|index| width(&first, index).is_none());
    let time = match (chosen, is_header) {
        (Some(name), _) => by_name(&first, name).or_else(|| by_number(&first, name))?,
        (None, true) => in_column(&first, second.as_deref())?,
        (None, false) => {
            let moments = (0..first.len()).find(|index| is_moment(&first, *index));
            // Numbers occur in any sentence, and columns other than the first often hold numbers that are not times.
            let number = || (delimiter != ' ' && width(&first, 0).is_some()).then_some(0);
            moments.or_else(number)?
        }
    };
    let unit = first.get(time).and_then(|name| TimeUnit::of_name(name));
    let row = if is_header { second } else { Some(first) };
    let width = row.and_then(|row| width(&row, time)).unwrap_or(1);
    let format = Format::Columns { delimiter, time, width, unit };
    let header = usize::from(is_header);
    Some(Found { format, header })
}

/// Returns the column of the time, from the header and the first request.
fn in_column(header: &[String], row: Option<&[String]>) -> Option<usize> {
    let usual = || NAMES.iter().find_map(|name| by_name(header, name));
    let Some(row) = row else {
        return usual();
    };
    let values: Vec<String> = (0..row.len()).map(|index| joined(row, index, width(row, index).unwrap_or(1))).collect();
    choose(header, &values).or_else(usual)
}

/// Returns the number of columns that a time spans from this one on: one; two if the date and the time of day are
/// separate; or three with a dash between them or a month as a word.
fn width(row: &[String], index: usize) -> Option<usize> {
    (1..=3).find(|width| parsed(&joined(row, index, *width), None).is_ok())
}

fn is_moment(row: &[String], index: usize) -> bool {
    let text = joined(row, index, width(row, index).unwrap_or(1));
    let value = text.split_once('=').map_or(&*text, |(_, value)| value);
    Timestamp::parse_moment(value.trim_matches('"')).is_some()
}

fn joined(row: &[String], index: usize, width: usize) -> String {
    let parts: Vec<&str> = row.iter().skip(index).take(width).map(String::as_str).collect();
    parts.join(" ")
}

fn by_name(columns: &[String], name: &str) -> Option<usize> {
    columns.iter().position(|column| plain(column) == plain(name))
}

/// Finds a column whose path ends with this name.
fn by_inner_name(columns: &[String], name: &str) -> Option<usize> {
    let has_name = |(_, last): (&str, &str)| plain(last) == plain(name);
    columns.iter().position(|column| column.rsplit_once('.').is_some_and(has_name))
}

fn plain(name: &str) -> String {
    name.replace(['_', '-', ' '], "").to_ascii_lowercase()
}

fn by_number(columns: &[String], number: &str) -> Option<usize> {
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    (index < columns.len()).then_some(index)
}

/// Lists the first columns, for a message.
fn shown(columns: &[String]) -> String {
    let few: Vec<String> = columns.iter().take(20).map(|column| column.chars().take(40).collect()).collect();
    few.join(", ")
}
