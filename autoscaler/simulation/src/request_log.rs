//! When requests came, from a log that someone has.

mod format;
mod lines;
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
    #[error("none of its lines has a time that can be read; the first is line {}: {}. Name the column or key of the time with --time-column", .0.line, .0.problem)]
    NoneRead(BadRow),
    /// The log is a compressed file, which this program unpacks.
    #[error("it is compressed: unpack it first, as in `{0} FILE | weir simulate -`")]
    Compressed(&'static str),
    /// The log is text of two bytes a letter.
    #[error(
        "it is UTF-16: convert it first, as in `iconv -f UTF-16 -t UTF-8 FILE | weir simulate -`"
    )]
    WideText,
    /// The log is not text.
    #[error(
        "it is not text: give a log with a line for each request, as CSV, an access log or JSON lines"
    )]
    Binary,
    /// The log is one JSON array.
    #[error(
        "it is one JSON array: give a line for each request, as in `jq -c '.[]' FILE | weir simulate -`"
    )]
    JsonArray,
    /// A quote is not closed.
    #[error(
        "line {0}: a field begins with a quote that is not closed within the next thousand lines: close it, or double quotes within a field"
    )]
    OpenQuote(u64),
    /// Its first line tells of no time.
    #[error(
        "line {line}: no {what} is called {wanted}, and not exactly one holds a time; the {what}s are {columns}: name the one with --time-column"
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
        for _ in 0..skipped {
            lines.next()?;
        }
        let (mut times, mut bad) = (Vec::new(), Vec::new());
        while let Some(mut line) = lines.next()? {
            if let Some(delimiter) = format.quoting() {
                lines.complete(&mut line, delimiter)?;
            }
            match format.time(&line.text, options.time_unit) {
                Ok(time) => times.push(time),
                Err(problem) => bad.push(BadRow {
                    line: line.number,
                    problem,
                }),
            }
            check(&times, &bad, options)?;
        }
        Ok(Self {
            arrivals: since_first(times, &bad)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RequestLog, LogError> {
        read_by(text, None)
    }

    fn read_by(text: &str, column: Option<&str>) -> Result<RequestLog, LogError> {
        let options = LogOptions {
            time_column: column.map(ToOwned::to_owned),
            time_unit: None,
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
        let refused = |bytes: &[u8]| {
            let options = LogOptions {
                time_column: None,
                time_unit: None,
                most_bad: 0,
            };
            RequestLog::read(bytes, &options).unwrap_err().to_string()
        };
        assert!(refused(&[0x1f, 0x8b, 8, 0]).contains("zcat"));
        assert!(refused(b"\x28\xb5\x2f\xfd\x01").contains("zstdcat"));
        assert!(refused(b"\xff\xfet\0i\0m\0e\0").contains("iconv -f UTF-16"));
        assert!(refused(b"PAR1\x15\x04").contains("not text"));
        assert!(message("[\n{\"time\":1}\n]\n").contains("jq -c"));
        assert!(message("time,text\n1,\"x\n2,y\n").contains("line 2: a field begins"));
        // Numbers in sentences are no times.
        let sentence = message("INFO: 127.0.0.1:5 - \"GET / HTTP/1.1\" 200 OK\n");
        assert!(sentence.contains("no column is called time"), "{sentence}");
        let keys = message("{\"a\":1,\"took\":7}\n");
        assert!(keys.contains("the keys are a, took"), "{keys}");
    }

    #[test]
    fn a_time_is_found_beside_other_numbers_and_under_other_names() {
        let rows = [
            // Numbers of rows and times that something took are no times of requests.
            "1,2026-01-01T00:00:00Z,a\n2,2026-01-01T00:00:01Z,b\n",
            "time,timestamp\n0.25,1767225600\n7.5,1767225601\n",
            "{\"time\":0.3,\"at\":\"2026-01-01T00:00:00Z\"}\n{\"time\":9,\"at\":\"2026-01-01T00:00:01Z\"}\n",
            "id,begun_ms\n1,1767225600000\n2,1767225601000\n",
            "{\"startTime\":\"2026-01-01T00:00:00Z\"}\n{\"startTime\":\"2026-01-01T00:00:01Z\"}\n",
            "{\"req\":{\"receivedAt\":1767225600000}}\n{\"req\":{\"receivedAt\":1767225601000}}\n",
            // A date and a time of day, in two columns.
            "id,date,time\n1,2026-01-01,00:00:00\n2,2026-01-01,00:00:01\n",
            "#Version: 1.0\n#Fields: date time\n2026-01-01 00:00:00 GET\n2026-01-01 00:00:01 GET\n",
            // Words with blanks between them.
            "https 2026-01-01T00:00:00Z app/lb 0.1 \"GET /, x\"\nhttps 2026-01-01T00:00:01Z app/lb 0.1 \"GET\"\n",
            "2026-01-01T00:00:00Z stdout F GET\n2026-01-01T00:00:01Z stdout F GET\n",
            "2026/01/01 00:00:00 [error] 1#1: *1 failed, client: 1\n2026/01/01 00:00:01 [error] 1#1: *1 failed, client: 1\n",
            "ts=2026-01-01T00:00:00Z level=info\nts=2026-01-01T00:00:01Z level=info\n",
            // Decimal commas, other delimiters, quotes over lines.
            "time;x\n1767225600,0;1\n1767225601,0;1\n",
            "time|x\n1|1\n2|1\n",
            "time,x\r1,1\r2,1\r",
            "time,text\n1,\"a\n7,b\"\n2,\"\"\"\"\n",
            // Brackets that hold no time.
            "[::1] - u[1] [01/Jan/2026:00:00:00 +0000] \"GET /\"\n[::1] - - [01/Jan/2026:00:00:01 +0000] \"GET /\"\n",
        ];
        for text in rows {
            assert_eq!(seconds(text), [0.0, 1.0], "{text}");
        }
    }

    #[test]
    fn a_unit_that_is_given_holds_for_small_numbers() {
        let options = LogOptions {
            time_column: None,
            time_unit: Some(TimeUnit::Milliseconds),
            most_bad: 0,
        };
        let text = "{\"timestamp\":0}\n{\"timestamp\":1500}\n";
        let log = RequestLog::read(text.as_bytes(), &options).unwrap();
        assert_eq!(log.arrivals[1], Duration::from_millis(1500));
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
