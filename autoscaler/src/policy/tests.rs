use super::*;
use crate::PolicyError;

fn accept(annotations: &[(&str, &str)]) -> Result<Accepted, PolicyError> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let annotations = annotations.iter().map(pair).collect();
    let declared = Declared {
        annotations: Some(&annotations),
        ..Declared::default()
    };
    declared.accept()
}

fn policy(annotations: &[(&str, &str)]) -> Policy {
    accept(annotations).unwrap().policy
}

fn refused(annotation: (&str, &str)) -> String {
    accept(&[annotation]).unwrap_err().to_string()
}

#[test]
fn nothing_declared_is_the_default() {
    let declared = Declared::default().accept().unwrap();
    assert_eq!(declared.policy, Policy::default());
    assert!(declared.without_effect.is_empty());
}

#[test]
fn fields_are_kserves() {
    let declared = Declared {
        min_replicas: Some(0),
        max_replicas: Some(4),
        scale_metric: Some("rps"),
        scale_target: Some(50),
        annotations: None,
    };
    let policy = declared.accept().unwrap().policy;
    assert_eq!((policy.min, policy.most()), (0, 4));
    assert_eq!(policy.metric, Some(Metric::Rps(50.0)));
}

#[test]
fn a_target_without_a_metric_counts_requests_in_flight() {
    let declared = Declared {
        scale_target: Some(3),
        ..Declared::default()
    };
    let policy = declared.accept().unwrap().policy;
    assert_eq!(policy.metric, Some(Metric::Concurrency(3.0)));
}

#[test]
fn processor_time_is_no_target() {
    let declared = Declared {
        scale_metric: Some("cpu"),
        scale_target: Some(80),
        ..Declared::default()
    };
    assert_eq!(declared.accept().unwrap().policy.metric, None);
}

#[test]
fn annotations_are_knatives() {
    let policy = policy(&[
        ("autoscaling.knative.dev/min-scale", "2"),
        ("autoscaling.knative.dev/maxScale", "9"),
        ("autoscaling.knative.dev/activation-scale", "3"),
        (
            "autoscaling.knative.dev/scale-to-zero-pod-retention-period",
            "1m5s",
        ),
        ("autoscaling.knative.dev/scale-down-delay", "15m"),
        ("autoscaling.knative.dev/window", "40s"),
        ("autoscaling.knative.dev/metric", "concurrency"),
        ("autoscaling.knative.dev/target", "10"),
        (
            "autoscaling.knative.dev/target-utilization-percentage",
            "70",
        ),
        ("weir.dev/queue-delay-target", "500ms"),
        ("weir.dev/slo-percentile", "95"),
        ("weir.dev/economy", "latency"),
    ]);
    let expected = Policy {
        min: 2,
        max: NonZeroU32::new(9),
        queue_delay: Duration::from_millis(500),
        share: 0.95,
        economy: Economy::Latency,
        metric: Some(Metric::Concurrency(7.0)),
        retention: Some(Duration::from_secs(65)),
        scale_down_delay: Duration::from_secs(900),
        window: Duration::from_secs(40),
        activation: NonZeroU32::new(3).unwrap(),
    };
    assert_eq!(policy, expected);
}

#[test]
fn what_has_no_effect_is_named_with_its_reason() {
    let name = "autoscaling.knative.dev/target-burst-capacity";
    let accepted = accept(&[(name, "200"), ("example.com/other", "x")]).unwrap();
    assert_eq!(accepted.policy, Policy::default());
    let reason = "requests always pass the gateway, which holds the queue";
    assert_eq!(accepted.without_effect, [(name, reason)]);
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    assert_eq!(
        refused(("weir.dev/queue-delay-target", "fast")),
        "weir.dev/queue-delay-target is \"fast\", and must be a duration such as 500ms, 30s or 1m30s"
    );
    assert_eq!(
        refused(("autoscaling.knative.dev/min-scale", "-1")),
        "autoscaling.knative.dev/min-scale is \"-1\", and must be a whole number from 0 to 10000"
    );
    assert_eq!(
        refused(("autoscaling.knative.dev/metric", "tokens")),
        "autoscaling.knative.dev/metric is \"tokens\", and must be concurrency, rps, cpu or memory"
    );
    for (name, value) in [
        ("autoscaling.knative.dev/window", "2h"),
        ("autoscaling.knative.dev/window", ""),
        ("autoscaling.knative.dev/target", "NaN"),
        ("autoscaling.knative.dev/activation-scale", "0"),
        ("weir.dev/slo-percentile", "100"),
        ("weir.dev/queue-delay-target", "0s"),
        ("weir.dev/economy", "cheap"),
    ] {
        assert!(refused((name, value)).starts_with(name));
    }
}

#[test]
fn a_count_out_of_range_is_refused() {
    let declared = Declared {
        min_replicas: Some(-1),
        ..Declared::default()
    };
    let said = declared.accept().unwrap_err().to_string();
    assert_eq!(
        said,
        "minReplicas is \"-1\", and must be a whole number from 0 to 10000"
    );
}

#[test]
fn the_floor_goes_before_the_ceiling() {
    let policy = Policy {
        min: 5,
        max: NonZeroU32::new(3),
        ..Policy::default()
    };
    assert_eq!((policy.bound(0), policy.bound(9)), (5, 5));
}
