//! `autoScaling.behavior`: limits on how fast replicas change, with the rules and defaults of the Kubernetes API.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use weir_cluster::{ChangeLimit, PolicySelect, RatePolicy, ScalingBehavior, ScalingRules};
use weir_crds::quantity_value;

use super::error_list::ErrorList;

/// Reads the behavior of a component. A field that a direction leaves out gets Kubernetes' default, and a direction
/// that is not set is unlimited.
pub(super) fn read(
    path: &str,
    written: Option<&HorizontalPodAutoscalerBehavior>,
    errors: &mut ErrorList,
) -> ScalingBehavior {
    let path = format!("{path}.autoScaling.behavior");
    let mut rules = |name: &str, rules: Option<&HPAScalingRules>, default: ScalingRules| {
        rules.map(|rules| read_rules(&format!("{path}.{name}"), rules, default, errors))
    };
    ScalingBehavior {
        up: rules("scaleUp", written.and_then(|written| written.scale_up.as_ref()), ScalingRules::default_up()),
        down: rules("scaleDown", written.and_then(|written| written.scale_down.as_ref()), ScalingRules::default_down()),
    }
}

fn read_rules(path: &str, written: &HPAScalingRules, default: ScalingRules, errors: &mut ErrorList) -> ScalingRules {
    let field = format!("{path}.stabilizationWindowSeconds");
    let window = written.stabilization_window_seconds;
    let window = window.map(|seconds| window_of(&field, seconds, errors));
    let tolerance = written.tolerance.as_ref();
    let tolerance = tolerance.map(|given| tolerance_of(&format!("{path}.tolerance"), given, errors));
    let select = written.select_policy.as_deref();
    let select = select.map(|name| select_of(&format!("{path}.selectPolicy"), name, errors));
    let policies = written.policies.as_ref();
    let policies = policies.map(|given| policies_of(&format!("{path}.policies"), given, errors));
    ScalingRules {
        window: window.unwrap_or(default.window),
        policies: policies.unwrap_or(default.policies),
        select: select.unwrap_or(default.select),
        tolerance: tolerance.unwrap_or(default.tolerance),
    }
}

fn window_of(field: &str, seconds: i32, errors: &mut ErrorList) -> Duration {
    let window = u64::try_from(seconds).map(Duration::from_secs);
    let fitting = window.ok().filter(|w| *w <= ScalingRules::LONGEST_WINDOW);
    fitting.unwrap_or_else(|| {
        let message = format!("{seconds} is not from 0 to 3600: write seconds, such as 300");
        errors.add(field, message);
        Duration::ZERO
    })
}

fn tolerance_of(field: &str, given: &Quantity, errors: &mut ErrorList) -> f64 {
    let value = quantity_value(&given.0).filter(|value| *value >= 0.0 && value.is_finite());
    value.unwrap_or_else(|| {
        let message = format!("`{}` is not a share of 0 or more: write a number such as \"0.05\" for 5 %", given.0);
        errors.add(field, message);
        0.0
    })
}

fn select_of(field: &str, name: &str, errors: &mut ErrorList) -> PolicySelect {
    match name {
        "Max" => PolicySelect::Max,
        "Min" => PolicySelect::Min,
        "Disabled" => PolicySelect::Disabled,
        _ => {
            errors.add(field, format!("`{name}` is not known: write Max, Min or Disabled"));
            PolicySelect::Max
        }
    }
}

fn policies_of(field: &str, written: &[HPAScalingPolicy], errors: &mut ErrorList) -> Vec<RatePolicy> {
    if written.is_empty() {
        let message = "there must be a policy: write one, or leave the field out for the default";
        errors.add(field, message);
    }
    let policies = written.iter().enumerate();
    policies.filter_map(|(i, policy)| policy_of(&format!("{field}[{i}]"), policy, errors)).collect()
}

fn policy_of(field: &str, written: &HPAScalingPolicy, errors: &mut ErrorList) -> Option<RatePolicy> {
    let seconds = written.period_seconds;
    let period = u64::try_from(seconds).map(Duration::from_secs);
    let period = period.ok().filter(|period| !period.is_zero() && *period <= ScalingRules::LONGEST_PERIOD);
    if period.is_none() {
        let message = format!("{seconds} is not from 1 to 1800: write seconds, such as 60");
        errors.add(format!("{field}.periodSeconds"), message);
    }
    let value = u32::try_from(written.value).ok().filter(|value| *value > 0);
    if value.is_none() {
        let message = format!("{} is not above 0: write a number such as 4", written.value);
        errors.add(format!("{field}.value"), message);
    }
    let most = match (written.type_.as_str(), value) {
        ("Pods", value) => value.map(ChangeLimit::Pods),
        ("Percent", value) => value.map(ChangeLimit::Percent),
        (unknown, _) => {
            let message = format!("`{unknown}` is not known: write Pods or Percent");
            errors.add(format!("{field}.type"), message);
            None
        }
    };
    Some(RatePolicy { most: most?, period: period? })
}
