//! The autoscaler's metrics: of each revision the replicas that are desired and ready, and why.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;
use weir_cluster::{RevisionName, ScalingPolicy, Snapshot};

use crate::{Account, Decision, Decisions};

/// The metrics' sources, read when they are scraped.
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
    let help = "Price of a GPU for an hour, as --gpu-price says";
    let gauge: Gauge<f64, AtomicU64> = Gauge::default();
    gauge.set(price);
    registry.register("weir_autoscaler_gpu_price", help, gauge);
}

/// Times from the arrival of the request that wakes a revision to the decision to wake it.
#[derive(Clone, Debug)]
pub(crate) struct WakeTimes(Histogram);

/// Bounds in seconds: a decision takes some milliseconds, and the next regular one comes within a second.
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

/// One revision with its last decision.
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
        ("weir_autoscaler_desired_replicas", "Replicas that the last decision asks for.", |row| {
            row.decision.replicas.into()
        }),
        ("weir_autoscaler_ready_replicas", "Replicas that take requests.", |row| {
            i64::try_from(row.ready).unwrap_or(i64::MAX)
        }),
        (
            "weir_autoscaler_unplaced_replicas",
            "Replicas that were asked for and do not come: no node takes them, or a quota refuses them.",
            |row| row.decision.unplaced.as_ref().map_or(0, |it| it.replicas.into()),
        ),
    ];
    for (name, help, value) in gauges {
        let kind = ConstGauge::new(0_i64).metric_type();
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for row in rows {
            let gauge = ConstGauge::new(value(row));
            gauge.encode(family.encode_family(&labels(row.name))?)?;
        }
    }
    Ok(())
}

/// One sample of each revision, which the reason names.
fn reasons(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let name = "weir_autoscaler_reason";
    let help = "1 for the reason of the last decision; `weir status --json` has the sentence.";
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
        ("weir_autoscaler_queue_delay_target", "How long requests may wait before replicas are added.", |row| {
            row.policy.queue_delay
        }),
        (
            "weir_autoscaler_queue_delay",
            "Queue delay at the last decision: the policy's quantile (p99 by default), or the wait of the oldest queued request if that is longer.",
            |row| row.decision.terms.queue_delay,
        ),
    ];
    for (name, help, value) in gauges {
        let kind = ConstGauge::new(0.0).metric_type();
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
        for row in rows {
            let gauge = ConstGauge::new(value(row).as_secs_f64());
            gauge.encode(family.encode_family(&labels(row.name))?)?;
        }
    }
    Ok(())
}

fn requests(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let counters: [(&str, &str, fn(&Account) -> u64); 2] = [
        (
            "weir_autoscaler_requests",
            "Requests that reached a replica or were refused, since this process leads.",
            |account| account.requests,
        ),
        (
            "weir_autoscaler_requests_in_time",
            "Those of them that waited no longer than the policy's delay: attainment is their share.",
            |account| account.in_time,
        ),
    ];
    for (name, help, value) in counters {
        let kind = ConstCounter::new(0_u64).metric_type();
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for row in rows {
            let counter = ConstCounter::new(value(&row.decision.account));
            counter.encode(family.encode_family(&labels(row.name))?)?;
        }
    }
    Ok(())
}

fn gpu_time(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> Result<(), fmt::Error> {
    let counters: [(&str, &str, fn(&Account) -> f64); 4] = [
        (
            "weir_autoscaler_replica_seconds",
            "Time of all ready replicas together, since this process leads.",
            |account| account.ready_time.as_secs_f64(),
        ),
        (
            "weir_autoscaler_idle_replica_seconds",
            "The part of it without a request, at the least: as if each request had a replica of its own.",
            |account| account.idle_time.as_secs_f64(),
        ),
        (
            "weir_autoscaler_gpu_seconds",
            "Time of the GPUs of ready replicas, since this process leads; a part of a GPU counts as one.",
            Account::gpu_seconds,
        ),
        (
            "weir_autoscaler_idle_gpu_seconds",
            "The part of it without a request, at the least.",
            Account::idle_gpu_seconds,
        ),
    ];
    for (name, help, value) in counters {
        let kind = ConstCounter::new(0.0).metric_type();
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for row in rows {
            let counter = ConstCounter::new(value(&row.decision.account));
            counter.encode(family.encode_family(&labels(row.name))?)?;
        }
    }
    Ok(())
}

fn labels(revision: &RevisionName) -> [(&'static str, &str); 3] {
    let service = revision.service();
    [("namespace", service.namespace()), ("service", service.name()), ("revision", revision.as_str())]
}
