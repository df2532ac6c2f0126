//! The meaning of a pod template: one form for all texts that ask for the same pod.
//!
//! An API server fills in defaults, leaves out empty lists, and writes a quantity in its own way. Templates that it would store
//! as the same pod have one form here: without defaults, without empty lists, and with quantities as numbers. A hash of a
//! template is of its text, so that hashes that were stored stay what they are; where two hashes differ, the forms decide.

mod quantity;

use serde_json::{Map, Value, json};

/// Mappings whose absence means the same as an empty one. Others say something by being there, such as `emptyDir: {}`.
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

/// Mappings from the name of a resource to its quantity. An API server rounds these up to thousandths.
const RESOURCE_LISTS: [&str; 3] = ["limits", "overhead", "requests"];

/// Mappings of texts to texts, whose fields have any names.
const TEXTS: [&str; 7] =
    ["annotations", "labels", "matchLabels", "nodeSelector", "options", "parameters", "volumeAttributes"];

/// Fields that hold one quantity.
const QUANTITIES: [&str; 2] = ["divisor", "sizeLimit"];

/// Lists of containers in a pod.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Probes of a container.
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Sources of a volume whose files have permissions.
const FILES: [&str; 4] = ["configMap", "downwardAPI", "projected", "secret"];

/// The canonical form of a template, or of a part of a manifest that is merged into one. `pod` is JSON whose fields are those
/// of a pod template, or of a pod.
#[must_use]
pub(crate) fn meaning(pod: Value) -> Value {
    canonical("spec", pod).unwrap_or(Value::Null)
}

/// The canonical form of the value of a field, or of an item of a list of that name; none where it means the same as absence.
fn canonical(field: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let items = items.into_iter();
            let canonical = items.map(|item| canonical(field, item).unwrap_or_else(|| json!({})));
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
    one_account(&mut fields);
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

/// An API server keeps the account of a pod under an older name as well.
fn one_account(fields: &mut Map<String, Value>) {
    if let Some(account) = fields.remove("serviceAccount") {
        fields.entry("serviceAccountName").or_insert(account);
    }
}

/// The fields of a mapping that mean the same as their absence when they have these values.
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
            // The claim of an ephemeral volume has this default.
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

/// The defaults of a container. Images are pulled by their tags unless the container says otherwise. How its last words are
/// found has another default in Weir than in an API server, and stays.
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
        assert_eq!(meaning(pod(one)), meaning(pod(other)));
    }

    #[track_caller]
    fn differ(one: &Value, other: &Value) {
        assert_ne!(meaning(pod(one)), meaning(pod(other)));
    }

    #[test]
    fn equal_quantities_are_one_request() {
        let cpu = |amount: &str| json!({ "resources": { "limits": { "cpu": amount } } });
        same(&cpu("1"), &cpu("1000m"));
        same(&cpu("1Gi"), &cpu("1024Mi"));
        same(&cpu("100u"), &cpu("1m"));
        differ(&cpu("1"), &cpu("1001m"));
        differ(&cpu("1G"), &cpu("1Gi"));
        differ(&cpu("a"), &cpu("b"));
    }

    #[test]
    fn what_is_empty_is_absent_unless_it_says_something() {
        same(&json!({ "name": "a", "envFrom": [], "resources": {} }), &json!({ "name": "a" }));
        same(&json!({ "resources": { "limits": {} }, "securityContext": {} }), &json!({}));
        let volume = |source: &Value| json!({ "spec": { "volumes": [source] } });
        let memory = volume(&json!({ "name": "v", "emptyDir": {} }));
        assert_ne!(meaning(memory), meaning(volume(&json!({ "name": "v" }))));
        let spread = |selector: &Value| json!({ "spec": { "topologySpreadConstraints": [{ "topologyKey": "zone", "labelSelector": selector }] } });
        assert_ne!(meaning(spread(&json!({}))), meaning(spread(&Value::Null)));
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
    fn an_init_container_that_stays_is_another_than_one_that_ends() {
        let init = |fields: &Value| json!({ "spec": { "initContainers": [fields] } });
        let stays = init(&json!({ "name": "a", "restartPolicy": "Always" }));
        assert_ne!(meaning(stays), meaning(init(&json!({ "name": "a" }))));
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
        fn a_form_is_its_own_form(value in json_value()) {
            let once = meaning(value);
            prop_assert_eq!(meaning(once.clone()), once);
        }
    }
}
