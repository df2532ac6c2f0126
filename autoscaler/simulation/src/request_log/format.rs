//! The kinds of logs, and where the time stands in each.

use serde_json::Value;

use super::timestamp::Timestamp;
use super::{LogError, LogOptions};

/// A kind of log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A line of columns for each request.
    Columns {
        delimiter: char,
        /// The column of the time, the first being 0.
        time: usize,
    },
    /// The common or combined log format: the time stands in brackets.
    Access,
    /// A JSON object for each request; the keys under which its time may stand.
    Json(Vec<String>),
}

/// Names that columns and keys of times have, in lower case; earlier ones go before later ones.
const NAMES: [&str; 14] = [
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
];

impl Format {
    /// The format of a log by its first line, and whether that line is a header.
    pub(super) fn detect(
        text: &str,
        line: u64,
        options: &LogOptions,
    ) -> Result<(Self, bool), LogError> {
        let chosen = options.time_column.as_deref();
        if text.starts_with('{') {
            let names = match chosen {
                Some(name) => vec![name.to_owned()],
                None => NAMES.map(ToOwned::to_owned).to_vec(),
            };
            return Ok((Self::Json(names), false));
        }
        if chosen.is_none() && bracketed(text).is_some_and(|time| Timestamp::parse(time).is_some())
        {
            return Ok((Self::Access, false));
        }
        let delimiter = [',', '\t', ';'].into_iter().find(|c| text.contains(*c));
        let delimiter = delimiter.unwrap_or(',');
        let columns = split(text, delimiter);
        let is_header = columns
            .iter()
            .all(|field| Timestamp::parse(field).is_none());
        let time = match chosen {
            Some(name) => by_name(&columns, name).or_else(|| by_number(&columns, name)),
            None if is_header => NAMES.iter().find_map(|name| by_name(&columns, name)),
            None => columns
                .iter()
                .position(|field| Timestamp::parse(field).is_some()),
        };
        let time = time.ok_or_else(|| LogError::NoTime {
            line,
            wanted: chosen.map_or_else(|| "time or timestamp".to_owned(), ToOwned::to_owned),
            columns: shown(&columns),
        })?;
        Ok((Self::Columns { delimiter, time }, is_header))
    }

    /// The time of a line; the error says what is wrong.
    pub(super) fn time(&self, text: &str) -> Result<Timestamp, String> {
        match self {
            Self::Columns { delimiter, time } => {
                let fields = split(text, *delimiter);
                let field = fields.get(*time);
                let field = field.ok_or_else(|| format!("it has no column {}", time + 1))?;
                parsed(field)
            }
            Self::Access => parsed(bracketed(text).ok_or("it has no time in brackets")?),
            Self::Json(names) => json(text, names),
        }
    }
}

fn json(text: &str, names: &[String]) -> Result<Timestamp, String> {
    let value: Value = serde_json::from_str(text).map_err(|_| "it is not JSON")?;
    let found = names.iter().find_map(|name| at_path(&value, name));
    match found {
        Some(Value::String(time)) => parsed(time),
        Some(Value::Number(time)) => parsed(&time.to_string()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
            Err(format!("it has no time under {}", shown_names(names)))
        }
    }
}

/// The value of a key, or of keys with dots between them.
fn at_path<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let direct = value.get(name);
    direct.or_else(|| name.split('.').try_fold(value, |inner, key| inner.get(key)))
}

fn parsed(field: &str) -> Result<Timestamp, String> {
    let short: String = field.chars().take(40).collect();
    Timestamp::parse(field).ok_or_else(|| format!("{short:?} is not a time"))
}

fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(time, _)| time)
}

/// The fields of a line; what stands in quotes may hold the delimiter.
fn split(text: &str, delimiter: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in text.chars() {
        if letter == '"' {
            is_quoted = !is_quoted;
        } else if letter == delimiter && !is_quoted {
            fields.push(String::new());
        } else if let Some(field) = fields.last_mut() {
            field.push(letter);
        }
    }
    for field in &mut fields {
        *field = field.trim().to_owned();
    }
    fields
}

fn by_name(columns: &[String], name: &str) -> Option<usize> {
    columns
        .iter()
        .position(|column| column.eq_ignore_ascii_case(name))
}

fn by_number(columns: &[String], number: &str) -> Option<usize> {
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    (index < columns.len()).then_some(index)
}

/// The first columns, as a message shows them.
fn shown(columns: &[String]) -> String {
    let few: Vec<String> = columns
        .iter()
        .take(20)
        .map(|column| column.chars().take(40).collect())
        .collect();
    few.join(", ")
}

fn shown_names(names: &[String]) -> &str {
    match names {
        [one] => one,
        _ => "time or timestamp",
    }
}
