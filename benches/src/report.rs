//! Report of a run as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::processes::Usage;
use crate::tally::Tally;

/// CPU time used so far by the load generator, the server and the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    client: Usage,
    server: Option<Usage>,
    machine: f64,
}

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) before: Sample,
    pub(crate) after: Sample,
    /// Time between the two samples, which are taken at the start and end of the window, or slightly later.
    pub(crate) elapsed: Duration,
}

impl Sample {
    /// Samples this process, the server's process if it is known, and the whole machine.
    ///
    /// # Errors
    /// Fails if the server's process has ended.
    pub(crate) fn take(server: Option<u32>) -> anyhow::Result<Self> {
        Ok(Self {
            client: Usage::of(std::process::id())?,
            server: server.map(Usage::of).transpose()?,
            machine: Usage::machine()?,
        })
    }
}

impl Report {
    fn server(&self, requests: f64) -> Value {
        let (Some(before), Some(after)) = (self.before.server, self.after.server) else {
            return Value::Null;
        };
        // The counts of ended threads are lost, so differences can be negative.
        let switches = after.switches.saturating_sub(before.switches);
        let preemptions = after.preemptions.saturating_sub(before.preemptions);
        json!({
            "cpu_us_per_request": (after.cpu - before.cpu) / requests * 1e6,
            "cpu_share": (after.cpu - before.cpu) / self.elapsed.as_secs_f64(),
            "switches_per_request": switches as f64 / requests,
            "preemptions_per_request": preemptions as f64 / requests,
        })
    }

    /// Returns the number of cores that other processes kept busy.
    fn disturbance(&self) -> f64 {
        let spent = |before: Usage, after: Usage| after.cpu - before.cpu;
        let client = spent(self.before.client, self.after.client);
        let server = self.before.server.zip(self.after.server).map_or(0.0, |(before, after)| spent(before, after));
        let others = self.after.machine - self.before.machine - client - server;
        (others / self.elapsed.as_secs_f64()).max(0.0)
    }

    fn latency(&self) -> Value {
        let latencies = &self.tally.latencies;
        let us = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1e3;
        json!({
            "p50": us(0.5),
            "p90": us(0.9),
            "p99": us(0.99),
            "p99.9": us(0.999),
            "max": latencies.max() as f64 / 1e3,
            "mean": latencies.mean() / 1e3,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.tally.latencies.len();
        let window = self.tally.window.1 - self.tally.window.0;
        // The CPU time is that between the samples, in which slightly more responses arrived than in the window.
        let scale = self.elapsed.as_secs_f64() / window.as_secs_f64();
        let sampled = requests as f64 * scale;
        let client = self.after.client.cpu - self.before.client.cpu;
        let report = json!({
            "requests": requests,
            "errors": self.tally.errors,
            "first_error": self.tally.first_error,
            "requests_per_s": requests as f64 / window.as_secs_f64(),
            "latency_us": self.latency(),
            "client_cpu_us": client / sampled * 1e6,
            "server": self.server(sampled),
            "other_cores_busy": self.disturbance(),
        });
        write!(f, "{report}")
    }
}
