//! Laws that every decision obeys, whatever happened before.

#[path = "laws/world.rs"]
mod world;

use std::time::Duration;

use proptest::prelude::*;
use weir_autoscaler::Coverage;
use weir_cluster::{ChangeLimit, PolicySelect, RatePolicy, ScalingBehavior, ScalingPolicy, ScalingRules};
use world::{Op, Revision, behavior, op, ops, policy};

/// Cases per law; thirteen laws take some seconds of one core each.
const CASES: u32 = 8000;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounds_are_never_left(policy in policy(), ops in ops()) {
        let mut revision = Revision::new(policy.clone());
        for op in &ops {
            let replicas = revision.step(op).replicas;
            prop_assert!(replicas >= policy.min && replicas <= policy.most());
        }
    }

    #[test]
    fn zero_is_reached_only_after_idleness(policy in policy(), ops in ops()) {
        let retention = policy.retention.unwrap_or(Duration::from_secs(60));
        let mut revision = Revision::new(policy);
        let mut idle = Duration::ZERO;
        for op in &ops {
            let before = revision.desired;
            let replicas = revision.step(op).replicas;
            match op.coverage {
                Coverage::None | Coverage::Partial => {}
                Coverage::Complete => idle += op.elapsed(),
            }
            if op.is_busy() {
                idle = Duration::ZERO;
            }
            if before > 0 && replicas == 0 {
                prop_assert!(idle >= retention, "after {:?} of {:?}", idle, retention);
            }
        }
    }

    #[test]
    fn a_request_at_zero_wakes_at_once(policy in policy(), ops in ops(), last in op()) {
        let mut revision = Revision::new(policy.clone());
        revision.play(&ops);
        revision.desired = 0;
        let last = Op { queued: last.queued.max(1), coverage: Coverage::Complete, ..last };
        let least = policy.activation.get().min(policy.most());
        prop_assert!(revision.step(&last).replicas >= least);
    }

    #[test]
    fn no_replica_ends_while_the_queue_is_over_its_target(policy in policy(), ops in ops(), last in op()) {
        let mut revision = Revision::new(policy.clone());
        revision.play(&ops);
        let desired = revision.desired;
        let late = policy.queue_delay.as_millis() as u64 + 1;
        let last = Op { queued: last.queued.max(1), oldest_ms: late, ..last };
        prop_assert!(revision.step(&last).replicas >= desired.min(policy.most()));
    }

    #[test]
    fn more_load_never_lowers_the_number(policy in policy(), ops in ops(), last in op(), more in (0..200_u64, 0..200_u32, 0..5000_u64)) {
        let mut less = Revision::new(policy);
        less.play(&ops);
        let mut greater = less.clone();
        let last = Op { coverage: Coverage::Complete, ..last };
        let heavier = Op {
            arrivals: last.arrivals + more.0,
            queued: last.queued + more.1,
            oldest_ms: last.oldest_ms + more.2,
            ..last
        };
        let (less, greater) = (less.step(&last), greater.step(&heavier));
        prop_assert!(greater.replicas >= less.replicas, "{} under more than {}", greater, less);
    }

    #[test]
    fn without_reports_nothing_changes(policy in policy(), ops in ops(), seconds in 1..60_u64) {
        let mut revision = Revision::new(policy);
        revision.play(&ops);
        let desired = revision.desired;
        let blind = Op { ms: 1000, coverage: Coverage::None, ..Op::default() };
        for _ in 0..seconds {
            prop_assert_eq!(revision.step(&blind).replicas, desired);
        }
    }

    #[test]
    fn silence_alone_never_raises_the_number(policy in policy(), ops in ops(), seconds in 1..70_u64) {
        let mut revision = Revision::new(policy);
        revision.play(&ops);
        // Changes that were held up while gateways were silent are decided now.
        let first = revision.step(&Op::default()).replicas;
        for _ in 0..seconds {
            let decision = revision.step(&Op::default());
            prop_assert!(decision.replicas <= first, "{} after {}", decision, first);
        }
    }

    #[test]
    fn old_samples_are_forgotten(policy in policy(), ops in ops()) {
        let mut revision = Revision::new(policy.clone());
        revision.play(&ops);
        // Eight samples, four hours and four minutes in all: no policy keeps a replica longer.
        let quiet = Op { ms: 1_830_000, ..Op::default() };
        for _ in 0..8 {
            revision.step(&quiet);
        }
        prop_assert_eq!(revision.step(&quiet).replicas, policy.bound(0));
    }

    #[test]
    fn only_the_time_between_samples_counts(policy in policy(), ops in ops(), offset in 0..1_000_000_u64) {
        let mut early = Revision::new(policy);
        let mut late = early.clone();
        late.at = Duration::from_secs(offset);
        for op in &ops {
            prop_assert_eq!(early.step(op), late.step(op));
        }
    }

    #[test]
    fn a_late_report_counts_like_its_parts(policy in policy(), each in 0..200_u64, seconds in 6..100_u64) {
        let second = Op { arrivals: each, ..Op::default() };
        let mut whole = Revision::new(policy);
        for _ in 0..60 {
            whole.step(&second);
        }
        let mut parts = whole.clone();
        let late = Op { ms: 1000 * seconds, arrivals: each * seconds, ..Op::default() };
        let whole = whole.step(&late).terms.rate;
        for _ in 1..seconds {
            parts.step(&second);
        }
        let parts = parts.step(&second).terms.rate;
        prop_assert!((whole - parts).abs() < 1e-6, "{} for {}", whole, parts);
    }

    #[test]
    fn a_behavior_only_holds_changes_back(policy in policy(), behavior in behavior(), ops in ops(), last in op()) {
        let mut held = Revision::new(ScalingPolicy { behavior, ..policy.clone() });
        held.play(&ops);
        let mut free = held.clone();
        free.policy = policy;
        let desired = held.desired;
        let (held, free) = (held.step(&last).replicas, free.step(&last).replicas);
        prop_assert!((desired.min(free)..=desired.max(free)).contains(&held), "{} from {} to {}", held, desired, free);
    }

    #[test]
    fn a_behavior_that_allows_everything_changes_nothing(policy in policy(), ops in ops()) {
        let all = ScalingRules {
            window: Duration::ZERO,
            policies: vec![RatePolicy { most: ChangeLimit::Pods(u32::MAX), period: Duration::from_secs(1) }],
            select: PolicySelect::Max,
            tolerance: 0.0,
        };
        let mut free = Revision::new(policy.clone());
        let behavior = ScalingBehavior { up: Some(all.clone()), down: Some(all) };
        let mut held = Revision::new(ScalingPolicy { behavior, ..policy });
        for op in &ops {
            prop_assert_eq!(held.step(op), free.step(op));
        }
    }

    #[test]
    fn rates_of_a_behavior_hold(policy in policy(), ops in ops(), most in 1..5_u32, seconds in 1..60_u64) {
        let period = Duration::from_secs(seconds);
        let rules = ScalingRules {
            policies: vec![RatePolicy { most: ChangeLimit::Pods(most), period }],
            ..ScalingRules::default_up()
        };
        let behavior = ScalingBehavior { up: Some(rules.clone()), down: Some(rules) };
        let mut revision = Revision::new(ScalingPolicy { behavior, ..policy });
        let mut past = vec![(Duration::ZERO, revision.desired)];
        for op in &ops {
            let before = revision.desired;
            let after = revision.step(op).replicas;
            let start = past.iter().rev().find(|(at, _)| revision.at - *at >= period).unwrap_or(&past[0]).1;
            past.push((revision.at, after));
            if before > 0 && after > before {
                prop_assert!(after <= start + most, "{} after {}", after, start);
            } else if after < before {
                prop_assert!(after + most >= start, "{} after {}", after, start);
            }
        }
    }

    #[test]
    fn starts_that_never_end_do_not_cause_more_starts(each in 1..300_u64, seconds in 1..60_u32) {
        let mut revision = Revision::new(ScalingPolicy::default());
        // A replica serves 40 requests per second: four at once, 100 ms each.
        let three = |queued: u32, starting_ms| Op {
            queued,
            ms: 10_000,
            arrivals: 10 * each,
            oldest_ms: u64::from(queued) * 10,
            in_flight: 12,
            ended: 30,
            ready: 0,
            starting_ms,
            ..Op::default()
        };
        let needed = each as f64 / 40.0;
        let most = (2.0 * needed).max(3.0).ceil() as u32;
        revision.placed = Some(3);
        for second in (0..seconds * 10).step_by(10) {
            let short = (each as u32).saturating_sub(120);
            let decision = revision.step(&three(second * short, u64::from(second) * 1000));
            prop_assert!(decision.replicas <= most, "{} for {}", decision, needed);
        }
    }

    #[test]
    fn all_terms_are_finite_numbers(policy in policy(), ops in ops(), credits in prop::option::of(0..9_u32)) {
        let mut revision = Revision::new(policy);
        revision.credits = credits;
        for op in &ops {
            let terms = revision.step(op).terms;
            let all = [terms.rate, terms.credits, terms.base, terms.backlog, terms.drain];
            prop_assert!(all.iter().all(|term| term.is_finite() && *term >= 0.0), "{:?}", terms);
        }
    }
}

proptest! {
    // An extreme load needs the most replicas that a policy allows, and each has a history, so a case takes 2 ms.
    #![proptest_config(ProptestConfig { cases: CASES / 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extreme_reports_do_no_harm(
        policy in policy(),
        ops in ops(),
        wild in (0..=u64::from(u32::MAX), 0..=u64::MAX / 4, any::<u32>(), 0..=u64::MAX / 4_000, any::<u32>(), any::<u32>(), 0..=10_u64.pow(12)),
    ) {
        let mut revision = Revision::new(policy.clone());
        revision.play(&ops);
        let (ms, arrivals, queued, oldest_ms, in_flight, credits, service_ms) = wild;
        let wild = Op { ms, arrivals, queued, oldest_ms, in_flight, credits, service_ms, ended: 9, ..Op::default() };
        for op in [&wild, &Op::default(), &wild] {
            let decision = revision.step(op);
            prop_assert!(decision.replicas >= policy.min && decision.replicas <= policy.most());
            let terms = decision.terms;
            let all = [terms.rate, terms.growth, terms.headroom, terms.base, terms.backlog, terms.drain];
            prop_assert!(all.iter().all(|term| term.is_finite() && *term >= 0.0), "{:?}", terms);
        }
    }
}
