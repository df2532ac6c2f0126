//! Canonical form of pod templates: one form for all texts that request the same pod.
//!
//! An API server fills in defaults, leaves out empty lists, and normalises quantities. Templates that it would store as
//! the same pod have one canonical form here: without defaults, without empty lists, and with quantities as numbers.
//! The stored hash of a template is that of its text, so that stored hashes stay valid; where two hashes differ, the
//! canonical forms decide.

mod quantity;

use serde_json::{Map, Value, json};

/// Mappings for which an empty value means the same as absence. For other fields an empty mapping has a meaning, such
/// as `emptyDir: {}`.
const NOTHING_WHEN_EMPTY: [&str; 19] = [
    "affinity",
    "annotations",
    "capabilities",
    "dnsConfig",
    "labels",
    "lifecycle",
    "limits",
    "matchLabels",
    "metadata",
    "nodeAffinity",
    "nodeSelector",
    "overhead",
    "podAffinity",
    "podAntiAffinity",
    "requests",
    "resources",
    "securityContext",
    "seLinuxOptions",
    "windowsOptions",
];

/// Mappings from resource names to quantities. An API server rounds these quantities up to thousandths.
const RESOURCE_LISTS: [&str; 3] = ["limits", "overhead", "requests"];

/// Mappings from strings to strings, whose keys are arbitrary.
const TEXTS: [&str; 7] =
    ["annotations", "labels", "matchLabels", "nodeSelector", "options", "parameters", "volumeAttributes"];

/// Fields that contain a single quantity.
const QUANTITIES: [&str; 2] = ["divisor", "sizeLimit"];

/// Fields of a pod that are lists of containers.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Fields of a container that are probes.
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Volume sources whose files have a default mode.
const FILES: [&str; 4] = ["configMap", "downwardAPI", "projected", "secret"];

/// Returns the canonical form of a template, or of a part of a manifest that is merged into one. `pod` is JSON with the
/// fields of a pod template or of a pod.
#[must_use]
pub(crate) fn canonical_form(pod: Value) -> Value {
    canonical("spec", pod).unwrap_or(Value::Null)
}

/// Returns the canonical form of the value of a field, or of an item of the list in that field; `None` if the value
/// means the same as absence.
fn canonical(field: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let canonical = items.into_iter().map(|item| canonical(field, item).unwrap_or_else(|| json!({})));
            Some(Value::Array(canonical.collect()))
        }
        Value::Object(fields) if TEXTS.contains(&field) && !fields.is_empty() => Some(Value::Object(fields)),
        Value::Object(fields) => {
            let fields = fields_of(field, fields);
            let is_nothing = fields.is_empty() && NOTHING_WHEN_EMPTY.contains(&field);
            (!is_nothing).then_some(Value::Object(fields))
        }
        Value::String(text) if QUANTITIES.contains(&field) => Some(quantity::exact(text).into()),
        scalar @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(scalar),
    }
}

fn fields_of(name: &str, fields: Map<String, Value>) -> Map<String, Value> {
    let fields = fields.into_iter();
    let mut fields: Map<_, _> = if RESOURCE_LISTS.contains(&name) {
        fields.map(rounded).collect()
    } else {
        fields
            .filter_map(|(field, value)| {
                let value = canonical(&field, value)?;
                Some((field, value))
            })
            .collect()
    };
    merge_account_names(&mut fields);
    let defaults = defaults(name, &fields);
    fields.retain(|field, value| !defaults.iter().any(|(of, default)| of == field && default == value));
    fields
}

fn rounded((resource, amount): (String, Value)) -> (String, Value) {
    match amount {
        Value::String(text) => (resource, quantity::in_thousandths(text).into()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            (resource, other)
        }
    }
}

/// Merges the two names of the service account: an API server also stores it under the older name `serviceAccount`.
fn merge_account_names(fields: &mut Map<String, Value>) {
    if let Some(account) = fields.remove("serviceAccount") {
        fields.entry("serviceAccountName").or_insert(account);
    }
}

/// Returns the default values in a mapping: a field with one of these values means the same as its absence.
fn defaults(name: &str, fields: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let mut defaults = match name {
        "spec" => vec![
            ("dnsPolicy", json!("ClusterFirst")),
            ("hostIPC", json!(false)),
            ("hostNetwork", json!(false)),
            ("hostPID", json!(false)),
            ("restartPolicy", json!("Always")),
            ("schedulerName", json!("default-scheduler")),
            ("shareProcessNamespace", json!(false)),
            ("terminationGracePeriodSeconds", json!(30)),
            // Default of the claim in an ephemeral volume.
            ("volumeMode", json!("Filesystem")),
        ],
        "env" => vec![("value", json!(""))],
        "fieldRef" => vec![("apiVersion", json!("v1"))],
        "grpc" => vec![("service", json!(""))],
        "hostPath" => vec![("type", json!(""))],
        "httpGet" => vec![("path", json!("/")), ("scheme", json!("HTTP"))],
        "emptyDir" => vec![("medium", json!(""))],
        "ports" => vec![("hostPort", json!(0)), ("protocol", json!("TCP"))],
        "resourceFieldRef" => vec![("divisor", json!(quantity::exact("0".to_owned())))],
        "serviceAccountToken" => vec![("expirationSeconds", json!(3600))],
        "tolerations" => {
            vec![("effect", json!("")), ("key", json!("")), ("operator", json!("Equal")), ("value", json!(""))]
        }
        "volumeMounts" => vec![("mountPropagation", json!("None")), ("subPath", json!(""))],
        _ if CONTAINERS.contains(&name) => of_container(fields),
        _ if FILES.contains(&name) => vec![("defaultMode", json!(0o644))],
        _ if PROBES.contains(&name) => vec![
            ("failureThreshold", json!(3)),
            ("initialDelaySeconds", json!(0)),
            ("periodSeconds", json!(10)),
            ("successThreshold", json!(1)),
            ("timeoutSeconds", json!(1)),
        ],
        _ => Vec::new(),
    };
    let everywhere = ["optional", "readOnly"].map(|field| (field, json!(false)));
    defaults.extend(everywhere);
    defaults
}

/// Returns the defaults of a container. The default `imagePullPolicy` depends on the image's tag.
/// `terminationMessagePolicy` is not among them, because Weir's default differs from that of an API server.
fn of_container(fields: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let image = fields.get("image").and_then(Value::as_str);
    let mut defaults = vec![
        ("stdin", json!(false)),
        ("stdinOnce", json!(false)),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("tty", json!(false)),
    ];
    defaults.extend(image.map(|image| ("imagePullPolicy", json!(pull_policy(image)))));
    defaults
}

fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or(image);
    let is_pinned = last.contains('@');
    match last.split('@').next().and_then(|name| name.split_once(':')) {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        None if is_pinned => "IfNotPresent",
        Some(_) | None => "Always",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pod(container: &Value) -> Value {
        json!({ "spec": { "containers": [container] } })
    }

    #[track_caller]
    fn same(one: &Value, other: &Value) {
        assert_eq!(canonical_form(pod(one)), canonical_form(pod(other)));
    }

    #[track_caller]
    fn differ(one: &Value, other: &Value) {
        assert_ne!(canonical_form(pod(one)), canonical_form(pod(other)));
    }

    #[test]
    fn equal_quantities_have_one_form() {
        let cpu = |amount: &str| json!({ "resources": { "limits": { "cpu": amount } } });
        same(&cpu("1"), &cpu("1000m"));
        same(&cpu("1Gi"), &cpu("1024Mi"));
        same(&cpu("100u"), &cpu("1m"));
        differ(&cpu("1"), &cpu("1001m"));
        differ(&cpu("1G"), &cpu("1Gi"));
        differ(&cpu("a"), &cpu("b"));
    }

    #[test]
    fn an_empty_value_is_absent_unless_it_has_a_meaning() {
        same(&json!({ "name": "a", "envFrom": [], "resources": {} }), &json!({ "name": "a" }));
        same(&json!({ "resources": { "limits": {} }, "securityContext": {} }), &json!({}));
        let volume = |source: &Value| json!({ "spec": { "volumes": [source] } });
        let memory = volume(&json!({ "name": "v", "emptyDir": {} }));
        assert_ne!(canonical_form(memory), canonical_form(volume(&json!({ "name": "v" }))));
        let spread = |selector: &Value| json!({ "spec": { "topologySpreadConstraints": [{ "topologyKey": "zone", "labelSelector": selector }] } });
        assert_ne!(canonical_form(spread(&json!({}))), canonical_form(spread(&Value::Null)));
    }

    #[test]
    fn defaults_of_the_api_server_are_absent() {
        let port = |fields: &Value| json!({ "ports": [fields] });
        same(&port(&json!({ "containerPort": 80, "protocol": "TCP" })), &port(&json!({ "containerPort": 80 })));
        differ(&port(&json!({ "containerPort": 80, "protocol": "UDP" })), &port(&json!({ "containerPort": 80 })));
        let image = |image: &str, policy: &str| json!({ "image": image, "imagePullPolicy": policy });
        same(&image("a:1", "IfNotPresent"), &json!({ "image": "a:1" }));
        same(&image("host:5000/a", "Always"), &json!({ "image": "host:5000/a" }));
        differ(&image("a:1", "Always"), &json!({ "image": "a:1" }));
        same(&json!({ "env": [{ "name": "A", "value": "" }] }), &json!({ "env": [{ "name": "A" }] }));
    }

    #[test]
    fn a_sidecar_differs_from_an_init_container() {
        let init = |fields: &Value| json!({ "spec": { "initContainers": [fields] } });
        let stays = init(&json!({ "name": "a", "restartPolicy": "Always" }));
        assert_ne!(canonical_form(stays), canonical_form(init(&json!({ "name": "a" }))));
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let field = prop_oneof![
            Just("ports"),
            Just("spec"),
            Just("limits"),
            Just("env"),
            Just("containers"),
            Just("value"),
            Just("protocol"),
            Just("resources"),
            Just("image"),
            Just("sizeLimit"),
            Just("readOnly"),
            Just("emptyDir"),
        ];
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4_u32).prop_map(Value::from),
            "[0-9]{0,2}(m|Gi|TCP)?".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec((field.clone(), inner), 0..4)
                    .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_idempotent(value in json_value()) {
            let once = canonical_form(value);
            prop_assert_eq!(canonical_form(once.clone()), once);
        }
    }
}
