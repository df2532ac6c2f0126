//! The collector that prints the metrics of models, host and GPUs at each scrape.

use std::fmt::Error;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::families::{COUNTS, DURATIONS, GAUGES, GPU_GAUGES};
use super::{ModelSample, Options, Sources, host};
use crate::statistics::{Histogram, Reason, Refusal, Snapshot};

type Labels = Vec<(String, String)>;

#[derive(Debug)]
pub(super) struct Collector {
    sources: Arc<dyn Sources>,
    options: Options,
    /// The utilization of the processors, measured between scrapes.
    utilization: Mutex<host::Utilization>,
}

impl Collector {
    pub(super) fn new(sources: Arc<dyn Sources>, options: Options) -> Self {
        Self { sources, options, utilization: Mutex::new(host::Utilization::begin()) }
    }

    fn durations(&self, print: &mut Printer<'_, '_>, models: &[LabelledModel]) -> Result<(), Error> {
        if self.options.counter_latencies {
            for family in &DURATIONS {
                let samples = models.iter().map(|model| (&model.labels, (family.value)(&model.sample)));
                print.triton_counter(family.name, family.help, samples)?;
            }
        }
        Ok(())
    }

    fn first_response(&self, print: &mut Printer<'_, '_>, models: &[LabelledModel]) -> Result<(), Error> {
        if !self.options.histogram_latencies {
            return Ok(());
        }
        let name = "nv_inference_first_response_histogram_ms";
        let help = "Time from arrival to the first response, in ms";
        print.histogram(name, help, models, |snapshot| &snapshot.first_response)
    }

    fn pools(&self, print: &mut Printer<'_, '_>) -> Result<(), Error> {
        let bodies = self.sources.request_bodies();
        let none = Labels::new();
        for (name, help, value) in [
            ("weir_runtime_request_body_bytes", "Bytes that request bodies in flight hold", bodies.used),
            (
                "weir_runtime_request_body_limit_bytes",
                "Limit on the bytes of request bodies in flight (--max-inflight-bytes)",
                bodies.total,
            ),
            // Triton's names, for dashboards: Weir has no such pool.
            ("nv_pinned_memory_pool_total_bytes", "Size of the pinned host memory pool", 0),
            ("nv_pinned_memory_pool_used_bytes", "Pinned host memory in use", 0),
        ] {
            print.gauge(name, help, [(&none, value)])?;
        }
        Ok(())
    }

    fn cpu(&self, print: &mut Printer<'_, '_>) -> Result<(), Error> {
        if !self.options.cpu {
            return Ok(());
        }
        let none = Labels::new();
        if let Some(now) = host::Processor::read() {
            let share = self.utilization.lock().at(now);
            let help = "Share of time in which the machine's processors were busy since the last scrape, 0 to 1";
            print.gauge("nv_cpu_utilization", help, [(&none, share)])?;
        }
        if let Some(memory) = host::memory() {
            let total = "Memory of the machine";
            print.gauge("nv_cpu_memory_total_bytes", total, [(&none, memory.total)])?;
            let used = "Memory of the machine in use";
            print.gauge("nv_cpu_memory_used_bytes", used, [(&none, memory.used)])?;
        }
        Ok(())
    }

    fn gpu(&self, print: &mut Printer<'_, '_>) -> Result<(), Error> {
        let gpus = self.sources.gpus();
        if !self.options.gpu || gpus.is_empty() {
            return Ok(());
        }
        let labels: Vec<Labels> = gpus.iter().map(|gpu| vec![label("gpu_uuid", &gpu.uuid)]).collect();
        for family in &GPU_GAUGES {
            let values = labels.iter().zip(gpus.iter().map(family.value));
            let samples = values.filter_map(|(labels, value)| Some((labels, value?)));
            print.gauge(family.name, family.help, samples)?;
        }
        let values = labels.iter().zip(gpus.iter().map(|gpu| gpu.energy));
        let samples = values.filter_map(|(labels, joules)| Some((labels, joules?)));
        let help = "Energy that the GPU has drawn, in joules";
        print.triton_counter("nv_energy_consumption", help, samples)
    }
}

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let models: Vec<LabelledModel> = self.sources.models().into_iter().map(LabelledModel::new).collect();
        let mut print = Printer(&mut encoder);
        counts(&mut print, &models)?;
        self.durations(&mut print, &models)?;
        self.first_response(&mut print, &models)?;
        gauges(&mut print, &models)?;
        weir_series(&mut print, &models)?;
        self.pools(&mut print)?;
        self.cpu(&mut print)?;
        self.gpu(&mut print)
    }
}

/// A sample with its labels, which every metric family needs.
struct LabelledModel {
    sample: ModelSample,
    labels: Labels,
}

impl LabelledModel {
    fn new(sample: ModelSample) -> Self {
        let mut labels = vec![label("model", &sample.name), label("version", &sample.version.to_string())];
        labels.extend(sample.tags.iter().cloned());
        Self { sample, labels }
    }

    fn with(&self, key: &str, value: &str) -> Labels {
        let mut labels = self.labels.clone();
        labels.push(label(key, value));
        labels
    }
}

fn label(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn counts(print: &mut Printer<'_, '_>, models: &[LabelledModel]) -> Result<(), Error> {
    let failures = models.iter().flat_map(|model| {
        let counts = Reason::ALL.into_iter().zip(model.sample.snapshot.failures);
        counts.map(|(reason, count)| (model.with("reason", reason.label()), count))
    });
    let help = "Failed requests, by reason; refused requests are REJECTED";
    print.triton_counter("nv_inference_request_failure", help, failures)?;
    for family in &COUNTS {
        let samples = models.iter().map(|model| (&model.labels, (family.value)(&model.sample)));
        print.triton_counter(family.name, family.help, samples)?;
    }
    Ok(())
}

fn gauges(print: &mut Printer<'_, '_>, models: &[LabelledModel]) -> Result<(), Error> {
    for family in &GAUGES {
        let samples = models.iter().map(|model| (&model.labels, (family.value)(&model.sample)));
        print.gauge(family.name, family.help, samples)?;
    }
    Ok(())
}

/// Prints the metrics that Triton does not have and an autoscaler needs.
fn weir_series(print: &mut Printer<'_, '_>, models: &[LabelledModel]) -> Result<(), Error> {
    let refusals = models.iter().flat_map(|model| {
        let counts = Refusal::ALL.into_iter().zip(model.sample.snapshot.refusals);
        counts.map(|(refusal, count)| (model.with("cause", refusal.label()), count))
    });
    print.counter("weir_runtime_refused", "Requests refused before they were queued, by cause", refusals)?;
    let shrunk = models.iter().map(|model| (model.labels.clone(), model.sample.snapshot.shrunk_batches));
    let help = "Batches that ran out of the device's memory, and whose requests ran in smaller batches";
    print.counter("weir_runtime_shrunk_batches", help, shrunk)?;
    let memory = models.iter().flat_map(|model| {
        let parts = model.sample.memory.parts().into_iter();
        parts.filter_map(|(part, bytes)| Some((model.with("part", part), bytes? as f64)))
    });
    print.gauge("weir_runtime_model_memory_bytes", "Memory of the model, by part", memory)?;
    let busy = models.iter().flat_map(|model| {
        let instances = model.sample.snapshot.busy.iter().enumerate();
        instances.map(|(index, busy)| (model.with("instance", &index.to_string()), busy.as_secs_f64()))
    });
    print.counter("weir_runtime_instance_busy_seconds", "Time that an instance spent on batches", busy)?;
    let help = "Time that requests waited in the queue";
    print.histogram("weir_runtime_queue_delay_seconds", help, models, |snapshot| &snapshot.queue_delay)?;
    let help = "Rows per executed batch";
    print.histogram("weir_runtime_batch_size", help, models, |snapshot| &snapshot.batch_size)
}

/// Writes one metric family at a time.
struct Printer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Printer<'_, '_> {
    /// Prints a counter under its bare name. It is encoded like a gauge, because the encoder appends `_total` to
    /// counters and Triton's names lack it.
    fn triton_counter<L: std::borrow::Borrow<Labels>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, impl EncodeGaugeValue)>,
    ) -> Result<(), Error> {
        self.plain(name, help, MetricType::Counter, samples)
    }

    fn gauge<L: std::borrow::Borrow<Labels>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, impl EncodeGaugeValue)>,
    ) -> Result<(), Error> {
        self.plain(name, help, MetricType::Gauge, samples)
    }

    fn plain<L: std::borrow::Borrow<Labels>>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: impl IntoIterator<Item = (L, impl EncodeGaugeValue)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            let labels = labels.borrow();
            // With an empty label set, the encoder would still print the braces.
            if labels.is_empty() {
                metric.encode_gauge(&value)?;
            } else {
                metric.encode_family(labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// Prints one of Weir's own counters, with the usual suffix `_total`.
    fn counter(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, impl EncodeCounterValue)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            let mut series = metric.encode_family(&labels)?;
            series.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        models: &[LabelledModel],
        pick: fn(&Snapshot) -> &Histogram,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for model in models {
            let histogram = pick(&model.sample.snapshot);
            let buckets: Vec<(f64, u64)> = histogram.buckets().collect();
            let mut series = metric.encode_family(&model.labels)?;
            series.encode_histogram::<NoLabelSet>(histogram.sum(), histogram.count(), &buckets, None)?;
        }
        Ok(())
    }
}
