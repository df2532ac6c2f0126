//! The process's one metrics registry, and its text format.
//!
//! The library prints OpenMetrics. Older scrapers (and `perf_analyzer`, which reads line by line) need Prometheus' text
//! format 0.0.4, so [`text`] writes that. In this format a counter's `TYPE` line has the name of its samples, and types
//! that 0.0.4 does not know are replaced by types that it knows.

use std::fmt::Write;

pub use prometheus_client::registry::Registry;

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Name prefix of Triton's metrics, whose counters lack the suffix `_total`.
const TRITON: &str = "nv_";

/// Returns a registry that contains the process's own metrics.
#[must_use]
pub fn with_process_metrics() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(crate::process::Collector));
    registry
}

/// Returns all registered metrics in Prometheus' text format.
///
/// # Errors
/// Fails if a collector cannot write its samples.
pub fn text(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut open = String::new();
    prometheus_client::encoding::text::encode_registry(&mut open, registry)?;
    classic(&open)
}

fn classic(open: &str) -> Result<String, std::fmt::Error> {
    let mut out = String::with_capacity(open.len());
    let mut lines = open.lines().peekable();
    let mut help = None;
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = Some(rest);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (suffix, kind) = classic_type(kind, name, lines.peek().copied());
            if let Some((_, text)) = help.take().and_then(|help| help.split_once(' ')) {
                writeln!(out, "# HELP {name}{suffix} {text}")?;
            }
            writeln!(out, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with("# UNIT ") {
            writeln!(out, "{line}")?;
        }
    }
    Ok(out)
}

/// Returns the suffix that is added to a metric family's name in format 0.0.4, and the family's type in that format.
fn classic_type<'a>(kind: &'a str, name: &str, sample: Option<&str>) -> (&'static str, &'a str) {
    match kind {
        "counter" => (counter_suffix(name, sample), "counter"),
        "info" => ("_info", "gauge"),
        "unknown" => ("", "untyped"),
        other => ("", other),
    }
}

/// Returns the suffix to add to a counter family's name. A family without samples gets the suffix that its samples will
/// have.
fn counter_suffix(name: &str, sample: Option<&str>) -> &'static str {
    let after = sample.and_then(|line| line.strip_prefix(name));
    let is_bare = after.is_some_and(|after| after.starts_with(['{', ' ']));
    if is_bare || name.starts_with(TRITON) { "" } else { "_total" }
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
    use prometheus_client::metrics::MetricType;
    use prometheus_client::metrics::counter::{ConstCounter, Counter};
    use prometheus_client::metrics::info::Info;

    use super::*;

    #[test]
    fn counters_are_typed_under_the_name_of_their_samples() {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        registry.register("seen", "Things seen", counter.clone());
        registry.register("build", "What was built", Info::new([("version", "1")]));
        counter.inc_by(3);
        let expected = "# HELP seen_total Things seen.\n# TYPE seen_total counter\nseen_total 3\n\
            # HELP build_info What was built.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(text(&registry).unwrap(), expected);
    }

    /// Counters, of which only the first can have a sample.
    #[derive(Debug)]
    struct Counters(Vec<u64>);

    impl Collector for Counters {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
            let mut samples = self.0.iter();
            for name in ["first", "second", "nv_third"] {
                let kind = MetricType::Counter;
                let family = encoder.encode_descriptor(name, "Counts", None, kind)?;
                if let Some(sample) = samples.next() {
                    ConstCounter::new(*sample).encode(family)?;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn a_counter_without_samples_has_the_name_of_its_later_samples() {
        for samples in [Vec::new(), vec![7]] {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(Counters(samples)));
            let text = text(&registry).unwrap();
            let lines = text.lines();
            let types: Vec<_> = lines.filter_map(|line| line.strip_prefix("# TYPE ")).collect();
            let expected = ["first_total counter", "second_total counter", "nv_third counter"];
            assert_eq!(types, expected);
        }
    }
}
