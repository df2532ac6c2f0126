//! Status of a service with several components, merged from the statuses of its components.

use std::collections::BTreeMap;

use weir_cluster::ComponentKind;
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use ConditionStatus::{False, True, Unknown};

/// Label of pods with their component, as in KServe.
const COMPONENT: &str = "component";

/// Published statuses by component; `None` until the component has one.
pub(crate) type ComponentStatuses = BTreeMap<ComponentKind, Option<InferenceServiceStatus>>;

/// Merges the statuses of a service's components. The service is ready only if all of them are. The model's status and
/// the canaries are the predictor's; the URL is that of the component that receives the service's requests.
pub(crate) fn merge(statuses: &ComponentStatuses) -> InferenceServiceStatus {
    let of = |component| statuses.get(&component).and_then(Option::as_ref);
    let mut merged = of(ComponentKind::Predictor).cloned().unwrap_or_default();
    if let Some(front) = of(ComponentKind::Transformer) {
        merged.url.clone_from(&front.url);
    }
    // A generation is observed once every component has observed it.
    let observed = statuses.values().map(|status| status.as_ref().and_then(|status| status.observed_generation));
    merged.observed_generation = observed.min().flatten();
    merged.label_selector = merged.label_selector.map(|selector| {
        let predictor = ComponentKind::Predictor;
        format!("{selector},{COMPONENT}={predictor}")
    });
    for (component, status) in statuses {
        let own = status.as_ref().and_then(|status| status.components.get(ComponentKind::Predictor.as_str()));
        merged.components.remove(component.as_str());
        merged.components.extend(own.map(|own| (component.to_string(), own.clone())));
    }
    merged.conditions = conditions(statuses);
    merged
}

/// Returns the part of a merged status that belongs to a component, from which a restarted controller continues.
pub(crate) fn part(component: ComponentKind, merged: &InferenceServiceStatus) -> InferenceServiceStatus {
    let mut part = merged.clone();
    part.label_selector = part.label_selector.map(|selector| match selector.split_once(&format!(",{COMPONENT}=")) {
        Some((whole, _)) => whole.to_owned(),
        None => selector,
    });
    let kind = kind_of(component);
    let is_of_other = |condition: &Condition| ComponentKind::ALL.iter().any(|other| condition.kind == kind_of(*other));
    part.conditions.retain(|condition| condition.kind == kind || !is_of_other(condition));
    for condition in part.conditions.iter_mut().filter(|condition| condition.kind == kind) {
        Condition::PREDICTOR_READY.clone_into(&mut condition.kind);
    }
    let own = part.components.remove(component.as_str());
    part.components.clear();
    part.components.extend(own.map(|own| (ComponentKind::Predictor.to_string(), own)));
    part
}

/// Returns the last statuses of a service's components as far as its merged status has them. One that the merged
/// status does not mention has none.
pub(crate) fn parts(components: &[ComponentKind], merged: &InferenceServiceStatus) -> ComponentStatuses {
    let is_in = |component: ComponentKind| merged.condition(kind_of(component)).is_some();
    components.iter().map(|component| (*component, is_in(*component).then(|| part(*component, merged)))).collect()
}

/// Returns the condition that is true if a component is ready.
fn kind_of(component: ComponentKind) -> &'static str {
    match component {
        ComponentKind::Predictor => Condition::PREDICTOR_READY,
        ComponentKind::Transformer => Condition::TRANSFORMER_READY,
        ComponentKind::Explainer => Condition::EXPLAINER_READY,
    }
}

/// Merges the conditions, in the order in which they are first met. Each component's readiness keeps a condition of its
/// own.
fn conditions(statuses: &ComponentStatuses) -> Vec<Condition> {
    let mut merged: Vec<Condition> = Vec::new();
    for (component, status) in statuses {
        let own = match status {
            Some(status) => status.conditions.clone(),
            None => not_planned(*component),
        };
        for condition in own.into_iter().map(|condition| of_component(*component, condition)) {
            match merged.iter_mut().find(|known| known.kind == condition.kind) {
                Some(known) => *known = worse(known.clone(), condition),
                None => merged.push(condition),
            }
        }
    }
    merged
}

fn of_component(component: ComponentKind, mut condition: Condition) -> Condition {
    if condition.kind == Condition::PREDICTOR_READY {
        kind_of(component).clone_into(&mut condition.kind);
    }
    condition
}

/// Returns the conditions of a component without a status.
fn not_planned(component: ComponentKind) -> Vec<Condition> {
    let unknown = |kind: &str| Condition {
        kind: kind.to_owned(),
        status: Unknown,
        reason: Some("NotPlanned".to_owned()),
        message: Some(format!("the {component} has no revision yet")),
        severity: None,
        last_transition_time: None,
    };
    vec![unknown(Condition::READY), unknown(Condition::PREDICTOR_READY)]
}

/// Returns the worse of two conditions of a kind: false before unknown before true. Conditions of the same status are
/// joined, and a message that the other one contains is left out.
fn worse(one: Condition, other: Condition) -> Condition {
    let rank = |condition: &Condition| match condition.status {
        False => 0,
        Unknown => 1,
        True => 2,
    };
    if rank(&one) != rank(&other) {
        return if rank(&one) < rank(&other) { one } else { other };
    }
    let message = match (one.message, other.message) {
        (Some(one), Some(other)) if one.contains(&other) => Some(one),
        (Some(one), Some(other)) if other.contains(&one) => Some(other),
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    };
    Condition {
        message,
        last_transition_time: one.last_transition_time.max(other.last_transition_time),
        reason: one.reason,
        kind: one.kind,
        severity: one.severity,
        status: one.status,
    }
}

#[cfg(test)]
mod tests {
    use weir_crds::inference_service::ComponentStatus;

    use super::*;

    fn condition(kind: &str, status: ConditionStatus, message: &str) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status,
            reason: None,
            message: Some(message.to_owned()).filter(|message| !message.is_empty()),
            severity: None,
            last_transition_time: None,
        }
    }

    fn status(ready: ConditionStatus, url: &str) -> InferenceServiceStatus {
        let own = ComponentStatus { url: Some(format!("http://{url}")), ..ComponentStatus::default() };
        InferenceServiceStatus {
            observed_generation: Some(1),
            url: Some(url.to_owned()),
            label_selector: Some("serving.kserve.io/inferenceservice=digits".to_owned()),
            components: [("predictor".to_owned(), Box::new(own))].into(),
            conditions: vec![
                condition(Condition::READY, ready, &format!("{url} is {ready:?}")),
                condition(Condition::PREDICTOR_READY, ready, ""),
                condition(Condition::STOPPED, False, "not stopped"),
            ],
            ..InferenceServiceStatus::default()
        }
    }

    fn statuses(predictor: ConditionStatus, transformer: ConditionStatus) -> ComponentStatuses {
        [
            (ComponentKind::Predictor, Some(status(predictor, "inner"))),
            (ComponentKind::Transformer, Some(status(transformer, "outer"))),
        ]
        .into()
    }

    fn ready(statuses: &ComponentStatuses) -> ConditionStatus {
        merge(statuses).condition(Condition::READY).unwrap().status
    }

    #[test]
    fn a_service_is_ready_only_with_all_its_components() {
        assert_eq!(ready(&statuses(True, True)), True);
        assert_eq!(ready(&statuses(False, True)), False);
        assert_eq!(ready(&statuses(True, Unknown)), Unknown);
        assert_eq!(ready(&statuses(Unknown, False)), False);
        let mut without = statuses(True, True);
        without.insert(ComponentKind::Explainer, None);
        assert_eq!(ready(&without), Unknown);
        assert_eq!(merge(&statuses(True, True)).observed_generation, Some(1));
        assert_eq!(merge(&without).observed_generation, None);
    }

    #[test]
    fn each_component_has_a_condition_and_a_url() {
        let merged = merge(&statuses(True, False));
        let of = |kind| merged.condition(kind).map(|condition| condition.status);
        assert_eq!(of(Condition::PREDICTOR_READY), Some(True));
        assert_eq!(of(Condition::TRANSFORMER_READY), Some(False));
        assert_eq!(of(Condition::EXPLAINER_READY), None);
        assert_eq!(merged.condition(Condition::STOPPED).unwrap().message.as_deref(), Some("not stopped"));
        assert_eq!(merged.url.as_deref(), Some("outer"));
        let url = |component: &str| merged.components[component].url.as_deref();
        assert_eq!((url("predictor"), url("transformer")), (Some("http://inner"), Some("http://outer")));
        let selector = "serving.kserve.io/inferenceservice=digits,component=predictor";
        assert_eq!(merged.label_selector.as_deref(), Some(selector));
    }

    #[test]
    fn a_part_of_the_merged_status_is_the_components() {
        let merged = merge(&statuses(True, False));
        let part = part(ComponentKind::Transformer, &merged);
        let kinds: Vec<_> = part.conditions.iter().map(|condition| &*condition.kind).collect();
        assert_eq!(kinds, [Condition::READY, Condition::STOPPED, Condition::PREDICTOR_READY]);
        assert_eq!(part.condition(Condition::PREDICTOR_READY).unwrap().status, False);
        assert_eq!(part.components["predictor"].url.as_deref(), Some("http://outer"));
    }

    #[test]
    fn the_parts_of_a_merged_status_merge_to_the_same_status() {
        let all = ComponentKind::ALL;
        for (predictor, transformer) in [(True, True), (True, False), (False, False), (Unknown, True)] {
            let merged = merge(&statuses(predictor, transformer));
            let parts = parts(&all[..2], &merged);
            assert_eq!(merge(&parts), merged);
            assert!(parts.values().all(Option::is_some));
        }
        assert!(parts(&all, &merge(&statuses(True, True)))[&ComponentKind::Explainer].is_none());
    }
}
