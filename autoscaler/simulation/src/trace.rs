//! Traces: recorded arrival times of requests to real services.

use std::path::Path;
use std::time::Duration;

use crate::chance::Chance;

/// Requests over time, as a trace file lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    bins: Vec<Bin>,
    /// Length of each bin; zero if every request has its own time.
    length: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bin {
    at: Duration,
    count: u32,
}

/// Error for a trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the trace's file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The first row is not a known header.
    #[error("{path} begins with {found:?}: write `t_s`, or `t_s,counts_per_60s`")]
    Header {
        /// Path of the trace's file.
        path: String,
        /// The first row of the file.
        found: String,
    },
    /// A row contains a text that is not a number.
    #[error("{path}, row {row}: {found:?} is not a number")]
    Number {
        /// Path of the trace's file.
        path: String,
        /// Number of the row; the header is row 1.
        row: usize,
        /// The text that is not a number.
        found: String,
    },
}

impl Trace {
    /// Reads a trace file with a row per request, or with counts per bin (`autoscaler/simulation/traces`).
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be read or is not a trace.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| TraceError::Io { path: name.clone(), source })?;
        Self::parse(&name, &text)
    }

    fn parse(path: &str, text: &str) -> Result<Self, TraceError> {
        let mut rows = text.lines().zip(1..);
        let header = rows.next().map_or("", |(row, _)| row);
        let length = match header.strip_prefix("t_s") {
            Some("") => Some(0),
            Some(rest) => bin_seconds(rest),
            None => None,
        };
        let length = length.ok_or_else(|| TraceError::Header { path: path.to_owned(), found: header.to_owned() })?;
        let length = Duration::from_secs(length);
        let mut bins = Vec::new();
        for (row, number) in rows {
            add(&mut bins, row, length).map_err(|found| TraceError::Number {
                path: path.to_owned(),
                row: number,
                found,
            })?;
        }
        Ok(Self { bins, length })
    }

    /// Returns the part between two times, with times relative to its beginning.
    #[must_use]
    pub fn slice(&self, from: Duration, until: Duration) -> Self {
        let inside = |bin: &&Bin| (from..until).contains(&bin.at);
        let moved = |bin: &Bin| Bin { at: bin.at.saturating_sub(from), ..*bin };
        Self { bins: self.bins.iter().filter(inside).map(moved).collect(), length: self.length }
    }

    /// Returns the trace repeated `times` times, each repetition beginning a `period` after the previous one.
    #[must_use]
    pub fn repeated(&self, times: u32, period: Duration) -> Self {
        let moved = |round: u32| self.bins.iter().map(move |bin| Bin { at: bin.at + period * round, ..*bin });
        Self { bins: (0..times).flat_map(moved).collect(), length: self.length }
    }

    /// Returns the arrival times. For bins, `share` of the requests are drawn as a Poisson process with the rate of
    /// each bin. Requests with their own times are returned unchanged.
    #[must_use]
    pub fn arrivals(&self, share: f64, seed: u64) -> Vec<Duration> {
        if self.length.is_zero() {
            return self.bins.iter().map(|bin| bin.at).collect();
        }
        let mut chance = Chance::new(seed);
        let mut arrivals = Vec::new();
        for bin in self.bins.iter().filter(|bin| bin.count > 0) {
            let expected = f64::from(bin.count) * share;
            let mean = self.length.div_f64(expected);
            let mut at = bin.at + chance.wait(mean);
            while at < bin.at + self.length {
                arrivals.push(at);
                at += chance.wait(mean);
            }
        }
        arrivals
    }
}

/// Returns the length of the bins: 60 for `,counts_per_60s`.
fn bin_seconds(column: &str) -> Option<u64> {
    let length = column.strip_prefix(",counts_per_")?.strip_suffix('s')?;
    length.parse().ok().filter(|seconds| *seconds > 0)
}

/// Adds the bins of a row. The error is the text that is not a number.
fn add(bins: &mut Vec<Bin>, row: &str, length: Duration) -> Result<(), String> {
    let (time, counts) = match row.split_once(',') {
        Some((time, counts)) => (time, counts),
        None => (row, "1"),
    };
    let start: f64 = time.parse().map_err(|_| time.to_owned())?;
    let mut at = Duration::try_from_secs_f64(start).map_err(|_| time.to_owned())?;
    for count in counts.split(' ') {
        let number = count.parse().map_err(|_| count.to_owned())?;
        bins.push(Bin { at, count: number });
        at += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: &[Duration]) -> Vec<f64> {
        times.iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn a_trace_with_times_is_replayed_and_repeated() {
        let trace = Trace::parse("t", "t_s\n0.5\n3\n").unwrap();
        let twice = trace.repeated(2, Duration::from_secs(10));
        assert_eq!(seconds(&twice.arrivals(1.0, 1)), [0.5, 3.0, 10.5, 13.0]);
        let part = twice.slice(Duration::from_secs(2), Duration::from_secs(11));
        assert_eq!(seconds(&part.arrivals(1.0, 1)), [1.0, 8.5]);
    }

    #[test]
    fn a_share_of_the_counts_arrives_within_each_bin() {
        let trace = Trace::parse("t", "t_s,counts_per_60s\n0,6000 0\n120,6000\n").unwrap();
        let arrivals = trace.arrivals(0.5, 7);
        assert!((5800..6200).contains(&arrivals.len()), "{}", arrivals.len());
        assert!(arrivals.is_sorted());
        let quiet = Duration::from_secs(60)..Duration::from_secs(120);
        assert!(!arrivals.iter().any(|at| quiet.contains(at)));
    }

    #[test]
    fn an_invalid_trace_is_refused_with_its_row() {
        let message = |text| Trace::parse("a.csv", text).unwrap_err().to_string();
        assert_eq!(message("t_s\n1\nx\n"), "a.csv, row 3: \"x\" is not a number");
        assert_eq!(message("t_s,counts_per_1s\n0,3 -1\n"), "a.csv, row 2: \"-1\" is not a number");
        assert!(message("time\n1\n").contains("write `t_s`"));
    }
}
