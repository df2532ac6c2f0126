//! When requests came, from a log that someone has.

mod format;
mod timestamp;

use std::io::{self, BufRead, Read};
use std::time::Duration;

use self::format::Format;
use self::timestamp::Timestamp;

/// The requests of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    /// Their times since the first, in order.
    pub arrivals: Vec<Duration>,
    /// Lines that were left out.
    pub bad: Vec<BadRow>,
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
    /// The log is a compressed file.
    #[error("it is compressed: unpack it first, as in `zcat FILE | weir simulate -`")]
    Compressed,
    /// Its first line tells of no time.
    #[error(
        "line {line}: no column is called {wanted}, and none begins with a time; the columns are {columns}: name the one with --time-column"
    )]
    NoTime {
        /// The line, the first being 1.
        line: u64,
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

/// Requests that fit into the memory of any machine: each takes some tens of bytes.
const MOST_REQUESTS: usize = 50_000_000;

/// A state is kept for each second.
const MOST_DAYS: u64 = 60;

/// The longest line: a line of an access log has some hundred bytes.
const LONGEST: u64 = 1 << 20;

impl RequestLog {
    /// Reads a log: CSV with a time column, an access log, or JSON lines with a time.
    ///
    /// # Errors
    /// [`LogError`], which names the line.
    pub fn read(mut reader: impl BufRead, options: &LogOptions) -> Result<Self, LogError> {
        let mut format = None;
        let mut times = Vec::new();
        let mut bad = Vec::new();
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            let length = reader
                .by_ref()
                .take(LONGEST)
                .read_until(b'\n', &mut bytes)?;
            match length as u64 {
                0 => break,
                LONGEST => return Err(LogError::LongLine(number)),
                _ if bytes.starts_with(&[0x1f, 0x8b]) && number == 1 => {
                    return Err(LogError::Compressed);
                }
                _ => {}
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_start_matches('\u{feff}').trim();
            if text.is_empty() {
                continue;
            }
            let format = match &format {
                Some(known) => known,
                None => {
                    let (found, is_header) = Format::detect(text, number, options)?;
                    let found = format.insert(found);
                    if is_header {
                        continue;
                    }
                    found
                }
            };
            match format.time(text) {
                Ok(time) => times.push(time),
                Err(problem) => bad.push(BadRow {
                    line: number,
                    problem,
                }),
            }
            check(&times, &bad, options)?;
        }
        Ok(Self {
            arrivals: since_first(times)?,
            bad,
        })
    }
}

fn check(times: &[Timestamp], bad: &[BadRow], options: &LogOptions) -> Result<(), LogError> {
    match bad.first() {
        Some(first) if bad.len() > options.most_bad => Err(LogError::TooManyBad {
            most: options.most_bad,
            first: first.clone(),
        }),
        _ if times.len() > MOST_REQUESTS => Err(LogError::TooMany),
        _ => Ok(()),
    }
}

fn since_first(mut times: Vec<Timestamp>) -> Result<Vec<Duration>, LogError> {
    times.sort_unstable();
    let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
        return Err(LogError::Empty);
    };
    let days = last.since(first).as_secs() / (24 * 3600);
    if days >= MOST_DAYS {
        return Err(LogError::TooLong { days });
    }
    Ok(times.into_iter().map(|time| time.since(first)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RequestLog, LogError> {
        read_by(text, None)
    }

    fn read_by(text: &str, column: Option<&str>) -> Result<RequestLog, LogError> {
        let options = LogOptions {
            time_column: column.map(ToOwned::to_owned),
            most_bad: 1,
        };
        RequestLog::read(text.as_bytes(), &options)
    }

    fn seconds(text: &str) -> Vec<f64> {
        let log = read(text).unwrap();
        log.arrivals.iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn every_common_kind_of_log_is_read() {
        let rows = [
            "time,path\n1.5,/a\n0.5,/b\n",
            "path;Timestamp\n/a;2026-01-01T00:00:00Z\n\"x;y\";2026-01-01 01:00:01+01:00\n",
            "1767225600000\n1767225601000\n",
            "\u{feff}ts\tstatus\r\n1767225600\t200\r\n1767225601\t200\r\n",
            "{\"msg\":\"x\",\"ts\":1767225600.0}\n\n{\"ts\":\"2026-01-01T00:00:01Z\"}\n",
            concat!(
                "10.0.0.1 - - [10/Oct/2025:13:55:36 -0700] \"GET / HTTP/1.1\" 200 23\n",
                "10.0.0.1 - bob [10/Oct/2025:20:55:37 +0000] \"GET /[x] HTTP/1.1\" 200 23 \"-\" \"curl\"\n",
            ),
        ];
        for text in rows {
            assert_eq!(seconds(text), [0.0, 1.0], "{text}");
        }
    }

    #[test]
    fn a_column_is_chosen_by_name_number_or_path() {
        let text = "id,begun,ended\n7,10,20\n8,11,22\n";
        let of = |column| read_by(text, Some(column)).unwrap().arrivals[1].as_secs();
        assert_eq!((of("ended"), of("begun"), of("3")), (2, 1, 2));
        let json = "{\"request\":{\"at\":1}}\n{\"request\":{\"at\":4}}\n";
        let log = read_by(json, Some("request.at")).unwrap();
        assert_eq!(log.arrivals[1].as_secs(), 3);
        let error = read_by(text, Some("end")).unwrap_err().to_string();
        assert!(error.contains("no column is called end"), "{error}");
    }

    #[test]
    fn bad_lines_are_told_by_number_and_are_few() {
        let log = read("time\n1\nx\n2\n").unwrap();
        assert_eq!((log.arrivals.len(), log.bad[0].line), (2, 3));
        assert_eq!(log.bad[0].problem, "\"x\" is not a time");
        let error = read("time\n1\nx\n\n-\n").unwrap_err().to_string();
        assert!(error.starts_with("more than 1 lines"), "{error}");
        assert!(error.contains("the first is line 3"), "{error}");
    }

    #[test]
    fn what_is_no_log_is_refused_with_what_to_do() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("").contains("no request"));
        assert!(message("time\n").contains("no request"));
        assert!(message("\n\n").contains("no request"));
        let columns = message("name,age\nx,1\n");
        assert!(columns.contains("line 1"), "{columns}");
        assert!(columns.contains("the columns are name, age: name the one with --time-column"));
        assert!(message("time\n0\n1767225600\n").contains("20454 days"));
        let long = format!("time\n{}", "1".repeat(2 << 20));
        assert!(message(&long).starts_with("line 2 is longer"));
        let packed = RequestLog::read(
            &[0x1f, 0x8b, 8, 0][..],
            &LogOptions {
                time_column: None,
                most_bad: 0,
            },
        );
        assert!(matches!(packed, Err(LogError::Compressed)));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for text in [
            "{",
            "{}",
            "[",
            "\"",
            ",",
            "time,\n",
            "\0\0\n",
            "-1e308\n1e308\n",
            "NaN\ninf\n",
        ] {
            let _ = read(text);
        }
    }
}
