//! Metrics of the process's own use of memory, CPU and files, under the names that Prometheus' client libraries use.
//! They are read at each scrape.

use std::fmt;

use metrics_process::collector::collect;
use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Collector of the metrics whose names begin with `process_`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collector;

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = collect();
        if let Some(seconds) = usage.cpu_seconds_total {
            let (name, help) = ("process_cpu_seconds", "Time on the processor");
            encode(&mut encoder, name, help, &ConstCounter::new(seconds))?;
        }
        // The library reports 0 if there is no limit.
        let max_files = usage.max_fds.filter(|max| *max > 0);
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory in use", usage.resident_memory_bytes),
            ("process_virtual_memory_bytes", "Address space in use", usage.virtual_memory_bytes),
            ("process_open_fds", "Open files and sockets", usage.open_fds),
            ("process_max_fds", "Files and sockets it may open", max_files),
            ("process_start_time_seconds", "Unix time of its start", usage.start_time_seconds),
        ] {
            if let Some(value) = value {
                encode(&mut encoder, name, help, &ConstGauge::new(value))?;
            }
        }
        Ok(())
    }
}

fn encode(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn metrics_of_this_process_are_collected() {
        let registry = crate::registry::with_process_metrics();
        let text = crate::registry::text(&registry).unwrap();
        for name in [
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_virtual_memory_bytes ",
            "process_open_fds ",
            "process_max_fds ",
            "process_start_time_seconds ",
        ] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} in\n{text}");
        }
    }
}
