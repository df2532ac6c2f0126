//! The process's own use of memory, processor and files, under the names Prometheus' client libraries
//! gave them. Read from `/proc` at each scrape; where there is none, nothing is printed.

use std::fs;

use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Ticks per second of the times in `/proc/self/stat`: `USER_HZ`, 100 on every Linux architecture
/// Rust's standard library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// Prints `process_*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collector;

/// What `/proc` says of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    start_seconds: Option<f64>,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: Option<u64>,
    max_files: Option<u64>,
}

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(usage) = Usage::read() else {
            return Ok(());
        };
        let mut print = Printer(&mut encoder);
        print.counter(
            "process_cpu_seconds",
            "Time on the processor",
            usage.cpu_seconds,
        )?;
        let resident = "Memory in use";
        print.gauge(
            "process_resident_memory_bytes",
            resident,
            usage.resident_bytes,
        )?;
        let reserved = "Address space in use";
        print.gauge(
            "process_virtual_memory_bytes",
            reserved,
            usage.virtual_bytes,
        )?;
        if let Some(open) = usage.open_files {
            print.gauge("process_open_fds", "Open files and sockets", open)?;
        }
        if let Some(max) = usage.max_files {
            print.gauge("process_max_fds", "Files and sockets it may open", max)?;
        }
        if let Some(start) = usage.start_seconds {
            print.gauge(
                "process_start_time_seconds",
                "Unix time of its start",
                start,
            )?;
        }
        Ok(())
    }
}

struct Printer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Printer<'_, '_> {
    fn counter(&mut self, name: &str, help: &str, value: f64) -> Result<(), std::fmt::Error> {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeGaugeValue,
    ) -> Result<(), std::fmt::Error> {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }
}

impl Usage {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let (cpu_ticks, start_ticks) = times(&stat)?;
        let boot = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| boot_time(&text));
        let limits = fs::read_to_string("/proc/self/limits").ok();
        Some(Self {
            cpu_seconds: cpu_ticks / TICKS_PER_SECOND,
            start_seconds: boot.map(|boot| boot + start_ticks / TICKS_PER_SECOND),
            resident_bytes: kilobytes(&status, "VmRSS:")?,
            virtual_bytes: kilobytes(&status, "VmSize:")?,
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| files.count() as u64),
            max_files: limits.and_then(|text| max_files(&text)),
        })
    }
}

/// User and system time together, and the start time, in ticks. The second field is the program's
/// name in parentheses and may hold anything, so fields are counted from behind it.
fn times(stat: &str) -> Option<(f64, f64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |index: usize| fields.get(index)?.parse::<f64>().ok();
    // proc(5) counts from 1 and the first field behind the name is its third.
    Some((field(14 - 3)? + field(15 - 3)?, field(22 - 3)?))
}

fn boot_time(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn kilobytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn max_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_is_stepped_over() {
        let stat = "7 (a) b) S 1 1 1 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 900 1000 25";
        assert_eq!(times(stat), Some((200.0, 900.0)));
    }

    #[test]
    fn lines_of_proc_are_read() {
        assert_eq!(
            kilobytes("VmSize:\t  10 kB\nVmRSS:\t 3 kB\n", "VmRSS:"),
            Some(3072)
        );
        assert_eq!(boot_time("cpu 1 2\nbtime 17\n"), Some(17.0));
        assert_eq!(
            max_files("Max open files   1024   4096   files\n"),
            Some(1024)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_seen() {
        let registry = crate::registry::with_process_metrics();
        let text = crate::registry::text(&registry).unwrap();
        for name in [
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_open_fds ",
            "process_max_fds ",
            "process_start_time_seconds ",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(name)),
                "{name} in\n{text}"
            );
        }
    }
}
