//! Prometheus metrics. The counts of revisions are the same as in the reports, read at each scrape.

use std::fmt;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use weir_cluster::{Activity, RevisionName, Routes};
use weir_tokens::KeySetState;

use crate::context::Context;
use crate::queue::{AtomicHistogram, RevisionQueue};
use crate::router::mirror::{MirrorCounts, MirrorOutcome};
use crate::wire::protocol::Protocol;

pub(crate) fn register(context: &Arc<Context>, registry: &mut Registry) {
    let context = Arc::downgrade(context);
    registry.register_collector(Box::new(Counts { context }));
}

struct Counts {
    context: Weak<Context>,
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

type Rows = Vec<(RevisionName, Arc<Activity>)>;

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(context) = self.context.upgrade() else {
            return Ok(());
        };
        let state = context.state.load();
        let queues = state.routes.queues.iter();
        let mut rows: Rows = queues.map(|(name, queue)| (name.clone(), queue.shown_activity())).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        port(&mut encoder, &context)?;
        access(&mut encoder, &context)?;
        let mut counts: Vec<_> = state.routes.mirrors.iter().map(|(name, counts)| (name, &**counts)).collect();
        counts.sort_by_key(|(name, _)| *name);
        mirrored(&mut encoder, &counts)?;
        counters(&mut encoder, &rows)?;
        refused_hosts(&mut encoder, &state.snapshot.routes)?;
        gauges(&mut encoder, &rows)?;
        delays(&mut encoder, &rows)?;
        let mut queues: Vec<_> = state.routes.queues.iter().collect();
        queues.sort_by_key(|(name, _)| *name);
        streams(&mut encoder, &queues)
    }
}

fn port(encoder: &mut DescriptorEncoder<'_>, context: &Context) -> Result<(), fmt::Error> {
    let requests = &context.counters;
    let name = "weir_gateway_requests";
    let counter = ConstCounter::new(0_u64);
    let mut family = encoder.encode_descriptor(name, "Requests received, by protocol.", None, counter.metric_type())?;
    for (protocol, count) in [(Protocol::Http, &requests.http), (Protocol::Grpc, &requests.grpc)] {
        let labels = [("protocol", protocol.label())];
        ConstCounter::new(count.load(Ordering::Relaxed)).encode(family.encode_family(&labels)?)?;
    }
    for (name, help, count) in [
        ("weir_gateway_unrouted", "Requests that match no revision.", &requests.unrouted),
        ("weir_gateway_replays", "Retries of requests.", &requests.replays),
        ("weir_gateway_batches", "Batches of several requests formed by the gateway.", &requests.batches),
        ("weir_gateway_batched_requests", "Requests sent to a replica in a batch of the gateway.", &requests.batched),
    ] {
        let counter = ConstCounter::new(count.load(Ordering::Relaxed));
        counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
    }
    let name = "weir_gateway_buffered";
    let help = "Bytes of request bodies buffered for retries.";
    let gauge = ConstGauge::new(i64::try_from(context.budget.in_use()).unwrap_or(i64::MAX));
    let bytes = Some(&Unit::Bytes);
    gauge.encode(encoder.encode_descriptor(name, help, bytes, gauge.metric_type())?)
}

/// Encodes the refusals of access control, by client and reason; nothing in a gateway without it.
fn access(encoder: &mut DescriptorEncoder<'_>, context: &Context) -> Result<(), fmt::Error> {
    let Some(access) = &context.options.access else {
        return Ok(());
    };
    let (refused, left_out) = access.audit.counts();
    let kind = ConstCounter::new(0_u64).metric_type();
    let name = "weir_gateway_access_refused";
    let help = "Requests refused by access control or by a limit of the client, by client and reason.";
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (client, reason, count) in &refused {
        let labels = [("client", &**client), ("reason", *reason)];
        ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
    }
    let name = "weir_gateway_access_log_lines_left_out";
    let help = "Lines about refusals and control calls that the bound for their client kept out of the log.";
    ConstCounter::new(left_out).encode(encoder.encode_descriptor(name, help, None, kind)?)?;
    let name = "weir_gateway_access_failed_reloads";
    let help = "Failed reads of access files, Secrets and ConfigMaps; the last keys and rules stay in use.";
    ConstCounter::new(access.failed_reloads()).encode(encoder.encode_descriptor(name, help, None, kind)?)?;
    key_sets(encoder, &access.key_sets())
}

/// Encodes the states of the issuers' key sets.
fn key_sets(encoder: &mut DescriptorEncoder<'_>, states: &[KeySetState]) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(0_i64).metric_type();
    let name = "weir_gateway_access_key_set_age";
    let help = "Time since an issuer's key set was last fetched, or at first since the issuer was configured.";
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), gauge)?;
    for state in states {
        let age = ConstGauge::new(state.age.as_secs_f64());
        age.encode(family.encode_family(&[("issuer", &*state.issuer)])?)?;
    }
    let name = "weir_gateway_access_key_set_usable";
    let help = "1 while an issuer's tokens can be verified; 0 before the first fetch and once the key set is too old, \
                when its tokens are refused.";
    let mut family = encoder.encode_descriptor(name, help, None, gauge)?;
    for state in states {
        let usable = ConstGauge::new(i64::from(state.is_usable));
        usable.encode(family.encode_family(&[("issuer", &*state.issuer)])?)?;
    }
    let name = "weir_gateway_access_key_set_failed_fetches";
    let help = "Fetches of an issuer's key set that failed.";
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for state in states {
        let failed = ConstCounter::new(state.failed_fetches);
        failed.encode(family.encode_family(&[("issuer", &*state.issuer)])?)?;
    }
    Ok(())
}

/// Encodes the counts of mirrored requests, by the revision that they are copied to.
fn mirrored(encoder: &mut DescriptorEncoder<'_>, rows: &[(&RevisionName, &MirrorCounts)]) -> Result<(), fmt::Error> {
    let kind = ConstCounter::new(0_u64).metric_type();
    let name = "weir_gateway_mirrored";
    let help = "Requests mirrored to the revision, by outcome.";
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (revision, counts) in rows {
        for outcome in MirrorOutcome::ALL {
            let [namespace, service, revision] = labels(revision);
            let labels = [namespace, service, revision, ("outcome", outcome.label())];
            let counter = ConstCounter::new(counts.counted(outcome));
            counter.encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn counters(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result<(), fmt::Error> {
    let counts: [(&str, &str, fn(&Activity) -> u64); 5] = [
        ("weir_revision_requests", "Requests received, refused ones included.", |a| a.arrivals),
        ("weir_revision_succeeded", "Requests answered without an error of the gateway or the replica.", |a| {
            a.succeeded
        }),
        ("weir_revision_failed", "Requests that ended with an error of the gateway or the replica.", |a| a.failed),
        ("weir_revision_refused", "Requests refused because the queue or the replicas were full.", |a| a.refused),
        ("weir_revision_woken", "Requests that found the revision scaled to zero.", |a| a.woken),
    ];
    counts.into_iter().try_for_each(|(name, help, count)| {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(family, rows, |activity| ConstCounter::new(count(activity)))
    })
}

/// Encodes, for each service, the number of hosts that its route claims but that do not follow from its name. Requests
/// to them are not routed.
fn refused_hosts(encoder: &mut DescriptorEncoder<'_>, routes: &Routes) -> Result<(), fmt::Error> {
    let kind = ConstGauge::new(0_i64).metric_type();
    let name = "weir_gateway_refused_hosts";
    let help = "Hosts that the service's route claims but that do not belong to the service.";
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    let routes = routes.as_slice().iter();
    for route in routes.filter(|route| !route.refused_hosts.is_empty()) {
        let service = &route.service;
        let name = service.full_name();
        let labels = [("namespace", service.namespace()), ("service", &*name)];
        let count = i64::try_from(route.refused_hosts.len()).unwrap_or(i64::MAX);
        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauges(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result<(), fmt::Error> {
    let gauges: [(&str, &str, fn(&Activity) -> u32); 2] = [
        ("weir_revision_queued", "Requests waiting for a replica, or inside one that says how many wait there.", |a| {
            a.queued
        }),
        ("weir_revision_in_flight", "Requests in progress at a replica, without those that wait inside it.", |a| {
            a.in_flight
        }),
    ];
    gauges.into_iter().try_for_each(|(name, help, value)| {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        each(family, rows, |activity| ConstGauge::new(i64::from(value(activity))))
    })
}

/// Encodes the sums of delays. The rate of a sum divided by the rate of the count is the mean. Quantiles of the queue
/// delay are in the gateway's JSON description (`describe`).
fn delays(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result<(), fmt::Error> {
    let sums: [(&str, &str, fn(&Activity) -> u64); 2] = [
        ("weir_revision_queue_delay_us", "Microseconds that requests have waited for a replica.", |a| {
            a.queue_delay.sum_us()
        }),
        ("weir_revision_service_time_us", "Microseconds that requests have been in progress at a replica.", |a| {
            a.service_time.sum_us()
        }),
    ];
    sums.into_iter().try_for_each(|(name, help, sum)| {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(family, rows, |activity| ConstCounter::new(sum(activity)))
    })
}

/// Encodes a metric of each revision.
fn each<M: EncodeMetric>(
    mut family: MetricEncoder<'_>,
    rows: &Rows,
    metric: impl Fn(&Activity) -> M,
) -> Result<(), fmt::Error> {
    rows.iter().try_for_each(|(revision, activity)| metric(activity).encode(family.encode_family(&labels(revision))?))
}

/// Encodes the times of streamed responses. A revision without such a response has only the bucket for infinity.
fn streams(
    encoder: &mut DescriptorEncoder<'_>,
    queues: &[(&RevisionName, &Arc<RevisionQueue>)],
) -> Result<(), fmt::Error> {
    let times: [(&str, &str, fn(&RevisionQueue) -> &AtomicHistogram); 2] = [
        (
            "weir_revision_first_byte",
            "Time from the arrival of a request to the first byte of its response, for responses of unknown length over HTTP.",
            |queue| &queue.streams.first_byte,
        ),
        ("weir_revision_chunk_interval", "Time between two pieces of such a response.", |queue| {
            &queue.streams.between_chunks
        }),
    ];
    for (name, help, pick) in times {
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (revision, queue) in queues {
            let buckets = pick(queue).buckets();
            let count = buckets.iter().map(|(_, count)| count).sum();
            // Most revisions never stream.
            let shown = if count == 0 { buckets.len() - 1.. } else { 0.. };
            let labels = labels(revision);
            let mut series = family.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(pick(queue).sum(), count, &buckets[shown], None)?;
        }
    }
    Ok(())
}

fn labels(revision: &RevisionName) -> [(&'static str, &str); 3] {
    let service = revision.service();
    [("namespace", service.namespace()), ("service", service.name()), ("revision", revision.as_str())]
}
