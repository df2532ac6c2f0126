//! A revision under arbitrary load, and arbitrary policies.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use weir_autoscaler::{Coverage, Decision, Load, Memory, Replicas, Sample, decide};
use weir_cluster::{Activity, Histogram};
use weir_cluster::{
    ChangeLimit, Economy, PolicySelect, RatePolicy, ScaleTarget, ScalingBehavior, ScalingPolicy, ScalingRules,
};

/// The next sample of a revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Milliseconds since the previous sample.
    pub(crate) ms: u64,
    pub(crate) coverage: Coverage,
    pub(crate) arrivals: u64,
    pub(crate) queued: u32,
    pub(crate) oldest_ms: u64,
    pub(crate) in_flight: u32,
    /// Concurrent requests of the ready replicas, as the gateways report them.
    pub(crate) credits: u32,
    /// Requests that ended, and the time of each.
    pub(crate) ended: u32,
    pub(crate) service_ms: u64,
    /// Quarters of the desired replicas that are ready; the others are starting.
    pub(crate) ready: u32,
    pub(crate) starting_ms: u64,
}

impl Default for Op {
    fn default() -> Self {
        Self {
            ms: 1000,
            coverage: Coverage::Complete,
            arrivals: 0,
            queued: 0,
            oldest_ms: 0,
            in_flight: 0,
            credits: 0,
            ended: 0,
            service_ms: 100,
            ready: 4,
            starting_ms: 0,
        }
    }
}

impl Op {
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.ms)
    }

    /// Returns true if the gateways report any load.
    pub(crate) fn is_busy(&self) -> bool {
        self.coverage != Coverage::None && (self.arrivals > 0 || self.queued > 0 || self.in_flight > 0)
    }

    fn load(&self) -> Load {
        let mut service_time = Histogram::default();
        let mut queue_delay = Histogram::default();
        for _ in 0..self.ended {
            service_time.record(Duration::from_millis(self.service_ms));
            queue_delay.record(Duration::from_millis(self.oldest_ms / 2));
        }
        let activity = Activity {
            arrivals: self.arrivals,
            queued: self.queued,
            in_flight: self.in_flight,
            credits: self.credits,
            oldest_us: self.oldest_ms * 1000,
            service_time,
            queue_delay,
            ..Activity::default()
        };
        Load { span: self.elapsed(), activity }
    }
}

/// A revision whose cluster follows every decision at once.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) policy: ScalingPolicy,
    pub(crate) memory: Memory,
    pub(crate) at: Duration,
    pub(crate) desired: u32,
    /// Concurrent requests of a replica, if the service declares them.
    pub(crate) credits: Option<u32>,
    /// Replicas that can be ready; `None` if there is room for all.
    pub(crate) placed: Option<u32>,
}

impl Revision {
    pub(crate) fn new(policy: ScalingPolicy) -> Self {
        Self {
            desired: policy.bound(1),
            policy,
            memory: Memory::default(),
            at: Duration::ZERO,
            credits: Some(4),
            placed: None,
        }
    }

    pub(crate) fn play(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
    }

    pub(crate) fn step(&mut self, op: &Op) -> Decision {
        self.at += op.elapsed();
        let ready = self.placed.map_or(self.desired * op.ready / 4, |most| most.min(self.desired));
        let starting = (ready..self.desired).map(|_| Duration::from_millis(op.starting_ms));
        let sample = Sample {
            at: self.at,
            coverage: op.coverage,
            load: op.load(),
            replicas: Replicas {
                desired: self.desired,
                ready,
                starting: starting.collect(),
                credits: self.credits,
                cold_start: Duration::from_secs(5),
            },
        };
        let decision = decide(&self.policy, &mut self.memory, &sample);
        self.desired = decision.replicas;
        decision
    }
}

prop_compose! {
    /// Any sample; about two in five are idle.
    pub(crate) fn op()(
        ms in prop_oneof![Just(1000_u64), 1..20_000_u64],
        coverage in prop_oneof![8 => Just(Coverage::Complete), 1 => Just(Coverage::Partial), 1 => Just(Coverage::None)],
        idle in prop::bool::weighted(0.4),
        arrivals in 0..200_u64,
        queued in prop_oneof![Just(0_u32), 0..300_u32],
        oldest_ms in 0..5000_u64,
        in_flight in 0..50_u32,
        credits in 0..50_u32,
        ended in 0..30_u32,
        service_ms in 1..2000_u64,
        ready in 0..=4_u32,
        starting_ms in 0..100_000_u64,
    ) -> Op {
        let busy = Op { ms, coverage, arrivals, queued, oldest_ms, in_flight, credits, ended, service_ms, ready, starting_ms };
        if idle { Op { ms, coverage, ready, starting_ms, ..Op::default() } } else { busy }
    }
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 0..30)
}

prop_compose! {
    pub(crate) fn policy()(
        min in 0..3_u32,
        max in prop::option::of(1..30_u32),
        retention in prop::option::of(0..90_u64),
        delay in 0..60_u64,
        target_ms in 50..3000_u64,
        economy in prop_oneof![Just(Economy::Economy), Just(Economy::Balanced), Just(Economy::Latency)],
        target in prop_oneof![
            Just(None),
            (0.5..10.0).prop_map(|n| Some(ScaleTarget::Concurrency(n))),
            (0.5..100.0).prop_map(|n| Some(ScaleTarget::Rps(n))),
        ],
        activation in 1..4_u32,
    ) -> ScalingPolicy {
        ScalingPolicy {
            min,
            max: max.filter(|max| *max > 0),
            retention: retention.map(Duration::from_secs),
            scale_down_delay: Duration::from_secs(delay),
            queue_delay: Duration::from_millis(target_ms),
            economy,
            target,
            activation: NonZeroU32::new(activation).unwrap_or(NonZeroU32::MIN),
            ..ScalingPolicy::default()
        }
    }
}

prop_compose! {
    fn rules()(
        window in 0..120_u64,
        policies in prop::collection::vec((1..200_u32, prop::bool::ANY, 1..120_u64), 1..3),
        select in prop_oneof![4 => Just(PolicySelect::Max), 4 => Just(PolicySelect::Min), 1 => Just(PolicySelect::Disabled)],
        tolerance in prop_oneof![Just(0.0), 0.0..1.0],
    ) -> ScalingRules {
        let policy = |(value, is_share, seconds): (u32, bool, u64)| RatePolicy {
            most: if is_share { ChangeLimit::Percent(value) } else { ChangeLimit::Pods(value) },
            period: Duration::from_secs(seconds),
        };
        ScalingRules {
            window: Duration::from_secs(window),
            policies: policies.into_iter().map(policy).collect(),
            select,
            tolerance,
        }
    }
}

pub(crate) fn behavior() -> impl Strategy<Value = ScalingBehavior> {
    let each = || prop::option::of(rules());
    (each(), each()).prop_map(|(up, down)| ScalingBehavior { up, down })
}
