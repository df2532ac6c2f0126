use std::num::NonZeroU32;

use weir_cluster::{Activity, Histogram};

use super::*;
use crate::{Load, Replicas, Throughput};

/// A revision whose samples a test creates second by second.
struct Revision {
    policy: ScalingPolicy,
    memory: Memory,
    at: Duration,
    replicas: Replicas,
}

/// One second of load.
#[derive(Clone, Copy, Default)]
struct Second {
    arrivals: u64,
    queued: u32,
    oldest_ms: u64,
    in_flight: u32,
    /// Requests that ended, after 100 ms each.
    ended: u32,
}

const IDLE: Second = Second { arrivals: 0, queued: 0, oldest_ms: 0, in_flight: 0, ended: 0 };

/// A second with 20 requests, for replicas that serve one request at a time in 100 ms.
const TWENTY: Second = Second { arrivals: 20, in_flight: 2, ended: 20, ..IDLE };

impl Revision {
    fn new(policy: ScalingPolicy, replicas: u32) -> Self {
        Self {
            policy,
            memory: Memory::default(),
            at: Duration::ZERO,
            replicas: Replicas {
                desired: replicas,
                ready: replicas,
                starting: Vec::new(),
                credits: Some(1),
                cold_start: Duration::from_secs(5),
            },
        }
    }

    fn see(&mut self, coverage: Coverage, second: Second) -> Decision {
        self.at += Duration::from_secs(1);
        let mut service_time = Histogram::default();
        for _ in 0..second.ended {
            service_time.record(Duration::from_millis(100));
        }
        let activity = Activity {
            arrivals: second.arrivals,
            queued: second.queued,
            in_flight: second.in_flight,
            oldest_us: second.oldest_ms * 1000,
            service_time,
            ..Activity::default()
        };
        let sample = Sample {
            at: self.at,
            coverage,
            load: Load { span: Duration::from_secs(1), activity },
            replicas: self.replicas.clone(),
        };
        decide(&self.policy, &mut self.memory, &sample)
    }

    /// Runs `seconds` equal seconds with replicas that are ready as soon as they are desired; returns the last
    /// decision.
    fn run(&mut self, seconds: u32, second: Second) -> Decision {
        let mut decision = self.see(Coverage::Complete, second);
        for _ in 1..seconds {
            self.follow(&decision);
            decision = self.see(Coverage::Complete, second);
        }
        self.follow(&decision);
        decision
    }

    fn follow(&mut self, decision: &Decision) {
        self.replicas.desired = decision.replicas;
        self.replicas.ready = decision.replicas;
    }
}

fn to_zero(retention: u64) -> ScalingPolicy {
    ScalingPolicy { min: 0, retention: Some(Duration::from_secs(retention)), ..ScalingPolicy::default() }
}

#[test]
fn the_last_replica_ends_after_its_retention() {
    let mut revision = Revision::new(to_zero(10), 1);
    let kept = revision.run(10, IDLE);
    assert_eq!(kept.to_string(), "1 replica: 0 would be enough, but the load may return; one stops in 1 s");
    let ended = revision.run(1, IDLE);
    assert_eq!(ended.replicas, 0);
    assert_eq!(ended.reason.label(), "Idle");
    assert_eq!(revision.run(60, IDLE).replicas, 0);
}

#[test]
fn a_request_at_zero_wakes_at_once_at_the_activation_scale() {
    let policy = ScalingPolicy { activation: NonZeroU32::new(3).unwrap(), ..to_zero(10) };
    let mut revision = Revision::new(policy, 0);
    let waiting = Second { arrivals: 1, queued: 1, ..IDLE };
    let woken = revision.run(1, waiting);
    assert_eq!(woken.to_string(), "3 replicas: 1 request is queued and there was no replica");
    assert_eq!(revision.run(1, IDLE).replicas, 3);
}

#[test]
fn replicas_follow_the_measured_capacity() {
    let mut revision = Revision::new(ScalingPolicy::default(), 2);
    let decision = revision.run(200, TWENTY);
    // 20 requests per second at 10 per second each need 2 replicas, and 0.8 × √2 more for irregular arrivals.
    assert_eq!(decision.replicas, 4);
    let expected = "4 replicas: 20.0 requests arrive per second, one replica serves 10.0, 0 are queued";
    assert_eq!(decision.to_string(), expected);
    assert_eq!(decision.terms.capacity, Some(10.0));
}

#[test]
fn unneeded_replicas_stay_for_a_while() {
    let mut revision = Revision::new(ScalingPolicy::default(), 1);
    revision.run(200, TWENTY);
    let counts: Vec<_> = (0..180).map(|_| revision.run(1, IDLE).replicas).collect();
    assert_eq!(counts[..59], [4; 59]);
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    assert_eq!((counts.contains(&2), counts[179]), (true, 1));
}

#[test]
fn bounds_limit_the_number_and_are_the_reason() {
    let policy = ScalingPolicy { min: 1, max: Some(2), ..ScalingPolicy::default() };
    let mut revision = Revision::new(policy, 0);
    assert_eq!(revision.run(1, IDLE).to_string(), "1 replica: at the minimum");
    let most = revision.run(200, TWENTY);
    assert_eq!(most.to_string(), "2 replicas: at the maximum; 4 are needed");
}

#[test]
fn silence_of_all_gateways_changes_nothing_and_is_not_idleness() {
    let mut revision = Revision::new(to_zero(10), 4);
    revision.run(5, IDLE);
    for _ in 0..600 {
        let blind = revision.see(Coverage::None, IDLE);
        assert_eq!(blind.to_string(), "4 replicas: no gateway reports, so the number stays");
    }
    assert_eq!(revision.run(5, IDLE).replicas, 4);
    assert_eq!(revision.run(1, IDLE).replicas, 0);
}

#[test]
fn replicas_start_although_a_gateway_is_silent() {
    let mut revision = Revision::new(ScalingPolicy::default(), 2);
    revision.run(1, TWENTY);
    for _ in 0..10 {
        revision.see(Coverage::Partial, TWENTY);
    }
    assert_eq!(revision.see(Coverage::Partial, TWENTY).replicas, 4);
    revision.replicas.desired = 9;
    revision.replicas.ready = 9;
    for _ in 0..100 {
        assert_eq!(revision.see(Coverage::Partial, IDLE).replicas, 9);
    }
}

#[test]
fn a_late_queue_adds_one_replica_and_waits_for_its_effect() {
    let late = Second { queued: 1, oldest_ms: 1500, ..TWENTY };
    let mut revision = Revision::new(ScalingPolicy::default(), 4);
    assert_eq!(revision.run(10, late).replicas, 4);
    let corrected = revision.run(1, late);
    assert_eq!(corrected.to_string(), "5 replicas: requests wait 1.5 s despite enough replicas, so one is added");
    assert_eq!(revision.run(10, late).replicas, 5);
    assert_eq!(revision.run(2, late).replicas, 6);
}

#[test]
fn a_target_per_replica_caps_the_assumed_capacity() {
    let policy = ScalingPolicy { target: Some(weir_cluster::ScaleTarget::Rps(5.0)), ..ScalingPolicy::default() };
    // Four replicas for 20 requests per second, and 0.8 × √4 for irregular arrivals; the same before anything was
    // measured.
    let unmeasured = Second { ended: 0, ..TWENTY };
    for second in [unmeasured, TWENTY] {
        let mut revision = Revision::new(policy.clone(), 1);
        assert_eq!(revision.run(200, second).replicas, 6);
    }
}

#[test]
fn replicas_raised_elsewhere_stay_for_a_while() {
    let mut revision = Revision::new(ScalingPolicy::default(), 1);
    revision.run(5, IDLE);
    revision.replicas.desired = 4;
    revision.replicas.ready = 4;
    assert_eq!(revision.run(60, IDLE).replicas, 4);
    assert_eq!(revision.run(2, IDLE).replicas, 1);
}

#[test]
fn a_first_replica_is_not_ended_while_it_starts() {
    let mut revision = Revision::new(to_zero(3), 1);
    revision.replicas.ready = 0;
    for second in 1..50 {
        revision.replicas.starting = vec![Duration::from_secs(second)];
        assert_eq!(revision.see(Coverage::Complete, IDLE).replicas, 1);
    }
    // The start has stalled.
    revision.replicas.starting = vec![Duration::from_secs(61)];
    for _ in 0..3 {
        revision.see(Coverage::Complete, IDLE);
    }
    assert_eq!(revision.see(Coverage::Complete, IDLE).replicas, 0);
}

#[test]
fn a_backlog_during_starts_does_not_start_more_replicas() {
    let mut revision = Revision::new(ScalingPolicy::default(), 1);
    revision.run(20, TWENTY);
    revision.replicas.cold_start = Duration::from_secs(120);
    revision.replicas.ready = 0;
    let mut most = 0;
    for second in 1..120 {
        let desired = revision.replicas.desired as usize;
        revision.replicas.starting = vec![Duration::from_secs(second); desired];
        let waiting = Second { arrivals: 20, queued: 20 * second as u32, oldest_ms: second * 1000, ..IDLE };
        let decision = revision.see(Coverage::Complete, waiting);
        revision.replicas.desired = decision.replicas;
        most = most.max(decision.replicas);
    }
    // Two replicas for the arrivals, and some for the requests queued by then.
    assert!((3..=5).contains(&most), "{most}");
}

#[test]
fn every_reason_has_its_own_label() {
    let (waiting, needed, time) = (1, 1, Duration::ZERO);
    let (wanted, limited_by) = (1, LimitedBy::Policies);
    let all = [
        Reason::Load { rate: 1.0, capacity: 1.0, waiting },
        Reason::Unmeasured { waiting },
        Reason::Woken { waiting },
        Reason::Idle { time, kept: time },
        Reason::Kept { needed, longer: time },
        Reason::Expected { needed },
        Reason::Foreseen { needed, rate: 1.0 },
        Reason::Corrected { waited: time },
        Reason::Late { waited: time },
        Reason::Shared { wanted: needed, fewer: Throughput::default() },
        Reason::HalfBlind,
        Reason::Blind,
        Reason::RiseHeld { wanted, limited_by },
        Reason::FallHeld { wanted, limited_by },
        Reason::Least,
        Reason::Most { needed },
    ];
    assert_eq!(all.map(Reason::label), Reason::LABELS);
}
