use std::time::Duration;

use proptest::prelude::*;
use prost::Message;
use weir_cluster::ServiceName;

use super::*;

fn name(service: &str, number: u32) -> RevisionName {
    let service = ServiceName::new("default", service).unwrap();
    service.revision(number).unwrap()
}

prop_compose! {
    fn histogram()(values in prop::collection::vec(0..1_u64 << 30, 0..20)) -> Histogram {
        let mut histogram = Histogram::default();
        for us in values {
            histogram.record(Duration::from_micros(us));
        }
        histogram
    }
}

prop_compose! {
    fn batches()(values in prop::collection::vec((any::<u32>(), any::<u32>()), 0..20)) -> Batches {
        let mut batches = Batches::default();
        for (size, us) in values {
            batches.record(size, Duration::from_micros(us.into()));
        }
        batches
    }
}

prop_compose! {
    fn replica_loads()(
        loads in prop::collection::btree_map("[a-z0-9-]{1,20}", any::<(u32, u32)>(), 0..5),
    ) -> ReplicaLoads {
        let loads = loads.into_iter().map(|(name, (streams, requests))| {
            (Arc::from(name), ReplicaLoad { streams, requests })
        });
        loads.collect()
    }
}

prop_compose! {
    fn untrusted()(all in prop::collection::btree_map("[a-z0-9-]{1,20}", ".{0,40}", 0..5)) -> UntrustedReplicas {
        all.into_iter().map(|(name, because)| (Arc::from(name), Arc::from(because))).collect()
    }
}

prop_compose! {
    fn activity()(
        counts in prop::array::uniform5(0..=MOST_COUNTED),
        now in any::<(u32, u32, u32, u64)>(),
        queue_delay in histogram(),
        service_time in histogram(),
        batches in batches(),
        replica_loads in replica_loads(),
        untrusted in untrusted(),
    ) -> Activity {
        let [arrivals, succeeded, failed, refused, woken] = counts;
        let (queued, in_flight, credits, oldest_us) = now;
        Activity {
            arrivals, succeeded, failed, refused, woken, queued, in_flight, credits, oldest_us,
            queue_delay, service_time, batches, replica_loads, untrusted,
        }
    }
}

prop_compose! {
    fn report()(
        started: u64,
        age_us: u64,
        routes: u64,
        revisions in prop::collection::btree_map(
            ("[a-z]{1,8}", 1..=99_999_u32).prop_map(|(service, number)| name(&service, number)),
            activity().prop_map(Arc::new),
            0..5,
        ),
    ) -> Report {
        Report { started, age_us, routes, revisions }
    }
}

/// A field of a later version, appended to an encoded message: number 1000, three bytes.
const LATER_FIELD: [u8; 6] = [0xc2, 0x3e, 3, 1, 2, 3];

/// Encodes a report of one revision, with a field of a later version in each of its messages.
fn from_later_version(activity: &proto::Activity) -> Vec<u8> {
    let later = |message: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        message(&mut bytes);
        bytes.extend(LATER_FIELD);
        bytes
    };
    let field = |number: u32, bytes: &[u8], into: &mut Vec<u8>| {
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, into);
        prost::encoding::encode_varint(bytes.len() as u64, into);
        into.extend(bytes);
    };
    let activity = later(&|bytes| activity.encode(bytes).unwrap());
    let revision = later(&|bytes| {
        field(1, b"default", bytes);
        field(2, b"digits-predictor-00001", bytes);
        field(3, &activity, bytes);
    });
    later(&|bytes| field(4, &revision, bytes))
}

fn one(activity: proto::Activity) -> proto::Report {
    proto::Report {
        revisions: vec![proto::Revision {
            namespace: "default".to_owned(),
            name: "digits-predictor-00001".to_owned(),
            activity: Some(Box::new(activity)),
        }],
        ..proto::Report::default()
    }
}

fn refused(message: proto::Report) -> String {
    let error = decode(message).unwrap_err();
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

proptest! {
    #[test]
    fn a_report_survives_encoding_and_decoding(report in report()) {
        let bytes = encode(&report).encode_to_vec();
        let message = proto::Report::decode(&*bytes).unwrap();
        prop_assert_eq!(decode(message).unwrap(), report);
    }

    #[test]
    fn fields_of_a_later_version_are_ignored(activity in activity()) {
        let bytes = from_later_version(&encode_activity(&activity));
        let report = decode(proto::Report::decode(&*bytes).unwrap()).unwrap();
        prop_assert_eq!(&*report.revisions[&name("digits", 1)], &activity);
    }

    #[test]
    fn any_bytes_are_a_report_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = proto::Report::decode(&*bytes) {
            let _ = decode(message);
        }
    }

    #[test]
    fn a_truncated_report_is_a_report_or_an_error(report in report(), keep in 0.0..1.0) {
        let bytes = encode(&report).encode_to_vec();
        let kept = (bytes.len() as f64 * keep) as usize;
        if let Ok(message) = proto::Report::decode(&bytes[..kept]) {
            let _ = decode(message);
        }
    }

    #[test]
    fn accepted_reports_add_up_without_overflow(reports in prop::collection::vec(activity(), 2..6)) {
        let mut sum = Activity::default();
        for activity in &reports {
            sum.merge(activity);
        }
        let arrivals: u64 = reports.iter().map(|activity| activity.arrivals).sum();
        prop_assert_eq!(sum.arrivals, arrivals);
        prop_assert!(sum.queue_delay.quantile(0.99).is_some() || sum.queue_delay.count() == 0);
    }
}

#[test]
fn a_missing_activity_is_read_as_zero() {
    let mut message = one(proto::Activity::default());
    message.revisions[0].activity = None;
    let report = decode(message).unwrap();
    let activity = &report.revisions[&name("digits", 1)];
    assert_eq!(**activity, Activity::default());
}

#[test]
fn a_histogram_is_encoded_without_empty_buckets_at_the_ends() {
    let mut histogram = Histogram::default();
    for ms in [100, 101, 110] {
        histogram.record(Duration::from_millis(ms));
    }
    let message = encode_histogram(&histogram).unwrap();
    assert!(message.counts.len() <= 2, "{message:?}");
    assert_eq!(encode_histogram(&Histogram::default()), None);
}

#[test]
fn a_filled_revision_takes_about_a_kibibyte() {
    let mut activity = Activity::default();
    for us in 0..20_000_u64 {
        let time = Duration::from_micros(us * 100);
        activity.queue_delay.record(time);
        activity.service_time.record(time);
        activity.batches.record((us % 64) as u32, time);
    }
    let length = one(encode_activity(&activity)).encoded_len();
    assert!(length < 1500, "{length}");
}

#[test]
fn the_maximum_of_revisions_fits_into_a_message() {
    let often = 1_u64 << 34;
    let filled = Histogram::from_counts(vec![often; Histogram::BUCKETS], u64::MAX).unwrap();
    let mut activity =
        Activity { arrivals: MOST_COUNTED, queue_delay: filled.clone(), service_time: filled, ..Activity::default() };
    for size in 0..100_000 {
        let times = BatchTimes { count: often, rows: often, total_us: u64::from(u32::MAX) };
        activity.batches.add(size, times);
    }
    let length = one(encode_activity(&activity)).encoded_len();
    assert!(length * MOST_REVISIONS <= MAX_MESSAGE, "{length}");
}

#[test]
fn invalid_names_and_numbers_are_refused_by_name() {
    let mut nameless = one(proto::Activity::default());
    nameless.revisions[0].name = "digits".to_owned();
    assert_eq!(refused(nameless), "invalid report: revision \"digits\": must look like {service}-predictor-{NNNNN}");
    let mut twice = one(proto::Activity::default());
    twice.revisions.push(twice.revisions[0].clone());
    assert_eq!(refused(twice), "invalid report: default/digits-predictor-00001 is listed twice");
    let mut many_revisions = one(proto::Activity::default());
    many_revisions.revisions = vec![many_revisions.revisions[0].clone(); MOST_REVISIONS + 1];
    assert_eq!(refused(many_revisions), "invalid report: 10001 revisions, at most 10000 are accepted");
    let many = one(proto::Activity { woken: u64::MAX, ..proto::Activity::default() });
    assert_eq!(
        refused(many),
        "invalid report of default/digits-predictor-00001: woken is 18446744073709551615, at most \
         281474976710656 is accepted"
    );
    let load = proto::ReplicaLoad { name: "r".repeat(254), ..proto::ReplicaLoad::default() };
    assert_eq!(
        refused(one(proto::Activity { replica_loads: vec![load], ..proto::Activity::default() })),
        "invalid report of default/digits-predictor-00001: the length of a replica's name is 254, at most 253 is accepted"
    );
    let untrusted = proto::UntrustedReplica { name: "a".to_owned(), because: "b".repeat(513) };
    assert_eq!(
        refused(one(proto::Activity { untrusted: vec![untrusted], ..proto::Activity::default() })),
        "invalid report of default/digits-predictor-00001: the length of a clause about a certificate is 513, at most 512 \
         is accepted"
    );
}

#[test]
fn histograms_and_batches_are_bounded() {
    let histogram = |first, counts| {
        let histogram = proto::Histogram { first, counts, sum_us: 0 };
        one(proto::Activity { queue_delay: Some(histogram), ..proto::Activity::default() })
    };
    let about = "invalid report of default/digits-predictor-00001";
    let bucket = |last: u64| format!("{about}: a histogram has bucket {last}, the last is 208");
    assert_eq!(refused(histogram(208, vec![1, 1])), bucket(209));
    assert_eq!(refused(histogram(0, vec![0; 210])), bucket(209));
    assert_eq!(refused(histogram(u32::MAX, vec![1])), bucket(u32::MAX.into()));
    assert!(decode(histogram(208, vec![1])).is_ok());
    assert!(decode(histogram(u32::MAX, vec![])).is_ok());
    assert!(refused(histogram(0, vec![u64::MAX])).contains("durations of one bucket"));
    let batches =
        one(proto::Activity { batches: vec![proto::Batches::default(); MOST_SIZES + 1], ..proto::Activity::default() });
    assert_eq!(refused(batches), "invalid report: 257 batch sizes, at most 256 are accepted");
}
