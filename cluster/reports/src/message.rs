//! Encoding and decoding of reports, with checks of sizes, numbers and names.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_cluster::{
    Activity, BatchTimes, Batches, Histogram, ReplicaLoad, ReplicaLoads, Report, RevisionName, UntrustedReplicas,
};

use crate::error::RemoteError;
use crate::proto;

/// Maximum size of a message: [`MOST_REVISIONS`] of 6 KiB each, the size of a revision with requests of every duration
/// and batches of every size over years. A typical revision takes 1 KiB.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

/// Maximum number of revisions in a report: more than one gateway serves.
const MOST_REVISIONS: usize = 10_000;

/// Maximum number of batch sizes of one revision: about twice the number of buckets into which a gateway sorts batch
/// sizes.
const MOST_SIZES: usize = 256;

/// Maximum number of replicas of one revision in a list: the maximum that an autoscaler requests.
const MOST_REPLICAS: usize = 10_000;

/// Maximum length of a replica's name in bytes: that of a pod's name. The reader of the reports keeps the names.
const MOST_NAME: u64 = 253;

/// Maximum length in bytes of a clause about a replica's certificate. Gateways shorten it.
const MOST_CLAUSE: u64 = 512;

/// Maximum count that is accepted: 10 000 requests a second take 890 years to reach it. The sum over all gateways and
/// buckets therefore does not overflow.
const MOST_COUNTED: u64 = 1 << 48;

/// Encodes a report for the wire.
pub(crate) fn encode(report: &Report) -> proto::Report {
    let revisions = report.revisions.iter();
    let revision = |(name, activity): (&RevisionName, &Arc<Activity>)| proto::Revision {
        namespace: name.service().namespace().to_owned(),
        name: name.as_str().to_owned(),
        activity: Some(Box::new(encode_activity(activity))),
    };
    proto::Report {
        started: report.started,
        age_us: report.age_us,
        routes: report.routes,
        revisions: revisions.map(revision).collect(),
    }
}

/// Decodes and checks a report from the wire.
///
/// # Errors
/// [`RemoteError`] when the message is not a valid report.
pub(crate) fn decode(message: proto::Report) -> Result<Report, RemoteError> {
    at_most("revisions", message.revisions.len(), MOST_REVISIONS)?;
    let mut report =
        Report { started: message.started, age_us: message.age_us, routes: message.routes, ..Report::default() };
    for revision in message.revisions {
        let name = RevisionName::parse(&revision.namespace, &revision.name)?;
        let activity = decode_activity(&name, *revision.activity.unwrap_or_default())?;
        let twice = report.revisions.insert(name.clone(), Arc::new(activity));
        if twice.is_some() {
            return Err(RemoteError::DuplicateRevision(name));
        }
    }
    Ok(report)
}

fn encode_activity(activity: &Activity) -> proto::Activity {
    let Activity {
        arrivals,
        succeeded,
        failed,
        refused,
        woken,
        queued,
        in_flight,
        credits,
        oldest_us,
        queue_delay,
        service_time,
        batches,
        replica_loads,
        untrusted,
    } = activity;
    proto::Activity {
        arrivals: *arrivals,
        succeeded: *succeeded,
        failed: *failed,
        refused: *refused,
        woken: *woken,
        queued: *queued,
        in_flight: *in_flight,
        credits: *credits,
        oldest_us: *oldest_us,
        queue_delay: encode_histogram(queue_delay),
        service_time: encode_histogram(service_time),
        batches: encode_batches(batches),
        replica_loads: encode_loads(replica_loads),
        untrusted: encode_untrusted(untrusted),
    }
}

fn decode_activity(name: &RevisionName, activity: proto::Activity) -> Result<Activity, RemoteError> {
    let count = |what, value| counted(name, what, value);
    Ok(Activity {
        arrivals: count("arrivals", activity.arrivals)?,
        succeeded: count("succeeded", activity.succeeded)?,
        failed: count("failed", activity.failed)?,
        refused: count("refused", activity.refused)?,
        woken: count("woken", activity.woken)?,
        queued: activity.queued,
        in_flight: activity.in_flight,
        credits: activity.credits,
        oldest_us: activity.oldest_us,
        queue_delay: decode_histogram(name, activity.queue_delay)?,
        service_time: decode_histogram(name, activity.service_time)?,
        batches: decode_batches(name, &activity.batches)?,
        replica_loads: decode_loads(name, activity.replica_loads)?,
        untrusted: decode_untrusted(name, activity.untrusted)?,
    })
}

/// Encodes only the buckets from the first to the last non-empty one: the durations of one revision are usually close
/// together.
fn encode_histogram(histogram: &Histogram) -> Option<proto::Histogram> {
    let counts = histogram.counts();
    let first = counts.iter().position(|count| *count > 0)?;
    let last = counts.iter().rposition(|count| *count > 0)?;
    Some(proto::Histogram {
        // The index fits: there are a few hundred buckets.
        first: first as u32,
        counts: counts[first..=last].to_vec(),
        sum_us: histogram.sum_us(),
    })
}

fn decode_histogram(name: &RevisionName, histogram: Option<proto::Histogram>) -> Result<Histogram, RemoteError> {
    let histogram = histogram.unwrap_or_default();
    if histogram.counts.is_empty() {
        return Ok(Histogram::default());
    }
    let bucket = |last| RemoteError::Bucket { revision: name.clone(), last, most: Histogram::BUCKETS - 1 };
    let first = histogram.first as usize;
    let end = first.saturating_add(histogram.counts.len());
    let mut counts = vec![0; Histogram::BUCKETS];
    let slots = counts.get_mut(first..end).ok_or_else(|| bucket(end - 1))?;
    for (slot, count) in slots.iter_mut().zip(histogram.counts) {
        *slot = counted(name, "durations of one bucket", count)?;
    }
    Histogram::from_counts(counts, histogram.sum_us).ok_or_else(|| bucket(end - 1))
}

fn encode_batches(batches: &Batches) -> Vec<proto::Batches> {
    let batches = batches.iter().map(|(size, times)| proto::Batches {
        size,
        count: times.count,
        rows: times.rows,
        total_us: times.total_us,
    });
    batches.collect()
}

fn decode_batches(name: &RevisionName, batches: &[proto::Batches]) -> Result<Batches, RemoteError> {
    at_most("batch sizes", batches.len(), MOST_SIZES)?;
    let mut all = Batches::default();
    for batch in batches {
        let times = BatchTimes {
            count: counted(name, "batches", batch.count)?,
            rows: counted(name, "rows", batch.rows)?,
            total_us: batch.total_us,
        };
        all.add(batch.size, times);
    }
    Ok(all)
}

fn encode_loads(loads: &ReplicaLoads) -> Vec<proto::ReplicaLoad> {
    let loads = loads.iter().map(|(name, load)| proto::ReplicaLoad {
        name: name.to_string(),
        streams: load.streams,
        requests: load.requests,
    });
    loads.collect()
}

fn decode_loads(name: &RevisionName, loads: Vec<proto::ReplicaLoad>) -> Result<ReplicaLoads, RemoteError> {
    at_most("replicas", loads.len(), MOST_REPLICAS)?;
    let loads = loads.into_iter().map(|load| {
        limited(name, "the length of a replica's name", load.name.len() as u64, MOST_NAME)?;
        let (streams, requests) = (load.streams, load.requests);
        Ok((Arc::from(load.name), ReplicaLoad { streams, requests }))
    });
    loads.collect()
}

fn encode_untrusted(untrusted: &UntrustedReplicas) -> Vec<proto::UntrustedReplica> {
    let each = untrusted.iter();
    each.map(|(name, because)| proto::UntrustedReplica { name: name.to_string(), because: because.to_string() })
        .collect()
}

fn decode_untrusted(
    name: &RevisionName,
    untrusted: Vec<proto::UntrustedReplica>,
) -> Result<UntrustedReplicas, RemoteError> {
    at_most("untrusted replicas", untrusted.len(), MOST_REPLICAS)?;
    let each = untrusted.into_iter().map(|one| {
        limited(name, "the length of a replica's name", one.name.len() as u64, MOST_NAME)?;
        limited(name, "the length of a clause about a certificate", one.because.len() as u64, MOST_CLAUSE)?;
        Ok((Arc::from(one.name), Arc::from(one.because)))
    });
    each.collect()
}

fn counted(name: &RevisionName, what: &'static str, value: u64) -> Result<u64, RemoteError> {
    limited(name, what, value, MOST_COUNTED)
}

fn limited(name: &RevisionName, what: &'static str, value: u64, most: u64) -> Result<u64, RemoteError> {
    if value <= most { Ok(value) } else { Err(RemoteError::TooLarge { revision: name.clone(), what, value, most }) }
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), RemoteError> {
    if count <= most { Ok(()) } else { Err(RemoteError::TooMany { what, count, most }) }
}
