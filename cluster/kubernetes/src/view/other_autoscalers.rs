//! HorizontalPodAutoscalers that target a service or one of its revisions. KEDA makes one for each ScaledObject.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;
use weir_cluster::{OtherAutoscaler, ReplicasField, RevisionName, ServiceName};

/// Label in which KEDA names the ScaledObject of an autoscaler.
const SCALED_OBJECT: &str = "scaledobject.keda.sh/name";

/// Autoscaler that is not Weir's, with its target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Targeted {
    pub(crate) target: AutoscalerTarget,
    pub(crate) autoscaler: OtherAutoscaler,
}

/// Object that an autoscaler scales.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AutoscalerTarget {
    /// The InferenceService of this name.
    Service(ServiceName),
    /// The Deployment of this revision.
    Revision(RevisionName),
}

/// Returns the autoscaler if its target has the kind and name of an object of Weir, whether or not the target exists.
pub(crate) fn targeted(object: &HorizontalPodAutoscaler) -> Option<Targeted> {
    let reference = &object.spec.scale_target_ref;
    let (group, _) = reference.api_version.as_ref()?.split_once('/')?;
    let (namespace, name) = (object.namespace()?, &reference.name);
    let (target, writes) = match (group, reference.kind.as_str()) {
        ("serving.kserve.io", "InferenceService") => {
            let service = ServiceName::new(&namespace, name).ok()?;
            (AutoscalerTarget::Service(service), ReplicasField::MinReplicas)
        }
        ("apps", "Deployment") => {
            let revision = RevisionName::parse(&namespace, name).ok()?;
            (AutoscalerTarget::Revision(revision), ReplicasField::Replicas)
        }
        _ => return None,
    };
    let name = named(object).into();
    let autoscaler = OtherAutoscaler { name, writes };
    Some(Targeted { target, autoscaler })
}

/// Returns the kind and name of the object that the user wrote.
fn named(object: &HorizontalPodAutoscaler) -> String {
    match object.labels().get(SCALED_OBJECT) {
        Some(name) => format!("ScaledObject {name}"),
        None => format!("HorizontalPodAutoscaler {}", object.name_any()),
    }
}

/// Returns the autoscaler that scales a revision. One that targets the Deployment wins over one that targets the
/// service.
pub(crate) fn of_revision<'a>(
    all: impl Iterator<Item = &'a Targeted> + Clone,
    revision: &RevisionName,
) -> Option<&'a OtherAutoscaler> {
    let is_revision = |one: &&Targeted| matches!(&one.target, AutoscalerTarget::Revision(name) if name == revision);
    let is_service =
        |one: &&Targeted| matches!(&one.target, AutoscalerTarget::Service(name) if name == revision.service());
    let found = all.clone().find(is_revision);
    let found = found.or_else(|| all.clone().find(is_service))?;
    Some(&found.autoscaler)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(target: Value, labels: Value) -> HorizontalPodAutoscaler {
        serde_json::from_value(json!({
            "metadata": { "name": "mine", "namespace": "team", "labels": labels },
            "spec": { "scaleTargetRef": target, "maxReplicas": 5 },
        }))
        .unwrap()
    }

    fn target(version: &str, kind: &str, name: &str) -> Value {
        json!({ "apiVersion": version, "kind": kind, "name": name })
    }

    #[test]
    fn only_services_and_their_deployments_count_as_targets() {
        let of = |version, kind, name| {
            let seen = targeted(&object(target(version, kind, name), json!({})))?;
            Some(seen.autoscaler.writes)
        };
        let service = |version| of(version, "InferenceService", "digits");
        assert_eq!(service("serving.kserve.io/v1beta1"), Some(ReplicasField::MinReplicas));
        assert_eq!(service("serving.example.com/v1beta1"), None);
        let deployment = |name| of("apps/v1", "Deployment", name);
        assert_eq!(deployment("digits-predictor-00001"), Some(ReplicasField::Replicas));
        assert_eq!(deployment("digits"), None);
        assert_eq!(of("apps/v1", "StatefulSet", "digits-predictor-00001"), None);
        assert_eq!(of("v1", "Deployment", "digits-predictor-00001"), None);
    }

    #[test]
    fn the_autoscaler_of_the_deployment_wins_and_keeps_its_users_name() {
        let service = target("serving.kserve.io/v1beta1", "InferenceService", "digits");
        let first = target("apps/v1", "Deployment", "digits-predictor-00001");
        let all = [
            targeted(&object(service, json!({}))).unwrap(),
            targeted(&object(first, json!({ SCALED_OBJECT: "wide" }))).unwrap(),
        ];
        let digits = ServiceName::new("team", "digits").unwrap();
        let of = |name: &RevisionName| of_revision(all.iter(), name).map(|it| it.name.to_string());
        let [first, second] = [1, 2].map(|number| digits.revision(number).unwrap());
        assert_eq!(of(&first).unwrap(), "ScaledObject wide");
        assert_eq!(of(&second).unwrap(), "HorizontalPodAutoscaler mine");
        let other = ServiceName::new("team", "other").unwrap();
        assert_eq!(of(&other.revision(1).unwrap()), None);
    }
}
