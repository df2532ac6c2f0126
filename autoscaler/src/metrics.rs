//! Metrics of the autoscaler for each revision: desired and ready replicas, the reason, delays and GPU time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;
use weir_cluster::{RevisionName, ScalingPolicy, Snapshot};

use crate::{Account, Decision, Decisions};

/// Sources of the metrics, read at each scrape.
#[derive(Debug)]
struct AutoscalerMetrics {
    decisions: watch::Receiver<Arc<Decisions>>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

pub(crate) fn register(
    decisions: watch::Receiver<Arc<Decisions>>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    registry: &mut Registry,
) {
    registry.register_collector(Box::new(AutoscalerMetrics { decisions, snapshots }));
}

pub(crate) fn register_price(price: f64, registry: &mut Registry) {
    let help = "Price of a GPU per hour, from --gpu-price";
    let gauge: Gauge<f64, AtomicU64> = Gauge::default();
    gauge.set(price);
    registry.register("weir_autoscaler_gpu_price", help, gauge);
}

/// Histogram of the time from the arrival of the request that wakes a revision to the decision to wake it.
#[derive(Clone, Debug)]
pub(crate) struct WakeTimes(Histogram);

/// Bounds in seconds: a decision takes a few milliseconds, and the next regular one comes within a second.
const WAKE_BOUNDS: [f64; 11] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

impl Default for WakeTimes {
    fn default() -> Self {
        Self(Histogram::new(WAKE_BOUNDS))
    }
}

impl WakeTimes {
    pub(crate) fn add(&self, took: Duration) {
        self.0.observe(took.as_secs_f64());
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Time from the arrival of a request at zero replicas to the decision to start one";
        registry.register_with_unit("weir_autoscaler_wake", help, Unit::Seconds, self.0.clone());
    }
}

/// One revision with its latest decision.
struct Row<'a> {
    name: &'a RevisionName,
    decision: &'a Decision,
    policy: &'a ScalingPolicy,
    ready: usize,
}

impl Collector for AutoscalerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let decisions = self.decisions.borrow().clone();
        let snapshot = self.snapshots.borrow().clone();
        let rows = decisions.iter().filter_map(|(name, decision)| {
            let revision = snapshot.revision(name)?;
            Some(Row { name, decision, policy: revision.scaling.as_deref()?, ready: revision.ready().count() })
        });
        let rows: Vec<Row<'_>> = rows.collect();
        replicas(&mut encoder, &rows)?;
        reasons(&mut encoder, &rows)?;
        delays(&mut encoder, &rows)?;
        requests(&mut encoder, &rows)?;
        gpu_time(&mut encoder, &rows)
    }
}

fn replicas(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let gauges: [(&str, &str, fn(&Row<'_>) -> i64); 3] = [
        ("weir_autoscaler_desired_replicas", "Desired replicas according to the latest decision.", |row| {
            row.decision.replicas.into()
        }),
        ("weir_autoscaler_ready_replicas", "Replicas that are ready for requests.", |row| {
            i64::try_from(row.ready).unwrap_or(i64::MAX)
        }),
        (
            "weir_autoscaler_unplaced_replicas",
            "Desired replicas that cannot start: no node fits them, or a quota refuses them.",
            |row| row.decision.unplaced.as_ref().map_or(0, |it| it.replicas.into()),
        ),
    ];
    gauges.into_iter().try_for_each(|(name, help, value)| {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        each(family, rows, |row| ConstGauge::new(value(row)))
    })
}

/// Encodes a metric of each revision.
fn each<M: EncodeMetric>(
    mut family: MetricEncoder<'_>,
    rows: &[Row<'_>],
    metric: impl Fn(&Row<'_>) -> M,
) -> Result<(), fmt::Error> {
    rows.iter().try_for_each(|row| metric(row).encode(family.encode_family(&labels(row.name))?))
}

/// Writes one sample for each revision, labelled with the reason of its latest decision.
fn reasons(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let name = "weir_autoscaler_reason";
    let help = "1 for the reason of the latest decision; `weir status --json` shows it as a sentence.";
    let one = ConstGauge::new(1_i64);
    let mut family = encoder.encode_descriptor(name, help, None, one.metric_type())?;
    for row in rows {
        let [namespace, service, revision] = labels(row.name);
        let reason = ("reason", row.decision.reason.label());
        one.encode(family.encode_family(&[namespace, service, revision, reason])?)?;
    }
    Ok(())
}

fn delays(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let gauges: [(&str, &str, fn(&Row<'_>) -> Duration); 2] = [
        ("weir_autoscaler_queue_delay_target", "Target for the time that requests wait for a replica.", |row| {
            row.policy.queue_delay
        }),
        (
            "weir_autoscaler_queue_delay",
            "Queue delay at the latest decision: the policy's quantile (p99 by default), or the wait of the oldest queued request if that is longer.",
            |row| row.decision.terms.queue_delay,
        ),
    ];
    gauges.into_iter().try_for_each(|(name, help, value)| {
        let family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        each(family, rows, |row| ConstGauge::new(value(row).as_secs_f64()))
    })
}

fn requests(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let counters: [(&str, &str, fn(&Account) -> u64); 2] = [
        (
            "weir_autoscaler_requests",
            "Requests that reached a replica or were refused, since this process became the leader.",
            |account| account.requests,
        ),
        (
            "weir_autoscaler_requests_in_time",
            "Requests that waited no longer than the policy's queue delay; their share of weir_autoscaler_requests_total is the attainment.",
            |account| account.in_time,
        ),
    ];
    counters.into_iter().try_for_each(|(name, help, value)| {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(family, rows, |row| ConstCounter::new(value(&row.decision.account)))
    })
}

fn gpu_time(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let counters: [(&str, &str, fn(&Account) -> f64); 4] = [
        (
            "weir_autoscaler_replica_seconds",
            "Total time of all ready replicas, since this process became the leader.",
            |account| account.ready_time.as_secs_f64(),
        ),
        (
            "weir_autoscaler_idle_replica_seconds",
            "Lower bound of the ready replicas' time without a request, as if each request occupied a replica alone.",
            |account| account.idle_time.as_secs_f64(),
        ),
        (
            "weir_autoscaler_gpu_seconds",
            "GPU time of all ready replicas, since this process became the leader; a fraction of a GPU counts as one.",
            Account::gpu_seconds,
        ),
        (
            "weir_autoscaler_idle_gpu_seconds",
            "Lower bound of the ready replicas' GPU time without a request.",
            Account::idle_gpu_seconds,
        ),
    ];
    counters.into_iter().try_for_each(|(name, help, value)| {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(family, rows, |row| ConstCounter::new(value(&row.decision.account)))
    })
}

fn labels(revision: &RevisionName) -> [(&'static str, &str); 3] {
    let service = revision.service();
    [("namespace", service.namespace()), ("service", service.name()), ("revision", revision.as_str())]
}
