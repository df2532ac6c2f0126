//! Validation rules of the definitions, in CEL, enforced by the API server. Where KServe has the same rule the message
//! is KServe's, so that users can search for it.

use serde_json::{Value, json};

use crate::constants::SHORT_FORMS;

/// Rule for a service's name, which becomes part of host names and of the names of its objects.
pub(crate) const NAME: &str = "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')";
pub(crate) const NAME_MESSAGE: &str = "a InferenceService name must consist of lower case \
    alphanumeric characters or '-', and must start with alphabetical character";

/// Rule for the length of a service's name: a DNS label has at most 63 characters, and the longest derived name appends
/// `-predictor-NNNNN`.
pub(crate) const NAME_LENGTH: &str = "size(self.metadata.name) <= 47";
pub(crate) const NAME_LENGTH_MESSAGE: &str = "a InferenceService name has at most 47 characters";

/// Rules for a whole service.
pub(crate) fn service() -> Value {
    json!([
        rule(
            "!has(self.canary) || self.canary.map(c, c.trafficPercent).sum() <= 100",
            "sum of canary trafficPercent values must be <= 100",
        ),
        rule(
            "!has(self.canary) || self.canary.all(c, !has(c.predictor.name) || \
             self.canary.exists_one(d, has(d.predictor.name) && d.predictor.name == c.predictor.name))",
            "canary predictor.name is duplicated",
        ),
        rule(
            "!has(self.canary) || !has(self.predictor.name) || self.canary.all(c, \
             !has(c.predictor.name) || c.predictor.name != self.predictor.name)",
            "canary predictor.name conflicts with stable predictor name",
        ),
        rule(
            "!has(self.canary) || !has(self.predictor.minReplicas) || self.canary.all(c, \
             !has(c.predictor.minReplicas) || c.predictor.minReplicas <= self.predictor.minReplicas)",
            "canary minReplicas must not exceed stable predictor minReplicas",
        ),
    ])
}

/// Rules for one canary, whose replicas follow the stable predictor's.
pub(crate) fn canary() -> Value {
    let unset = |field: &str| rule(&format!("!has(self.predictor.{field})"), &format!("canary must not set {field}"));
    let mut rules = vec![rule("has(self.predictor.name)", "canary predictor.name is required")];
    rules.extend(["workerSpec", "maxReplicas", "scaleTarget", "scaleMetric", "autoScaling"].map(unset));
    rules.into()
}

/// Rules for the stable predictor.
pub(crate) fn predictor() -> Value {
    let count = count_of_forms();
    predictor_with(&format!("{count} == 1 || ({count} == 0 && has(self.containers) && size(self.containers) > 0)"))
}

/// Rules for a canary's predictor, which inherits omitted fields from the stable one.
pub(crate) fn canary_predictor() -> Value {
    predictor_with(&format!("{} <= 1", count_of_forms()))
}

/// Rules for a predictor; `forms_given` is the rule about the number of forms.
fn predictor_with(forms_given: &str) -> Value {
    let stored: Vec<_> = forms().map(|form| format!("has(self.{form}) && has(self.{form}.storageUri)")).collect();
    let mut rules = component();
    rules.push(rule(
        forms_given,
        &format!("Exactly one of [{}, model, containers] must be specified in predictor", SHORT_FORMS.join(", ")),
    ));
    rules.push(rule(
        &format!("!has(self.storageUris) || !({})", stored.join(" || ")),
        "storageUris and storageUri exclude each other",
    ));
    rules.into()
}

fn forms() -> impl Iterator<Item = &'static str> {
    SHORT_FORMS.into_iter().chain(["model"])
}

/// CEL expression for the number of forms in which a predictor names a model.
fn count_of_forms() -> String {
    let given: Vec<_> = forms().map(|form| format!("has(self.{form})")).collect();
    format!("[{}].filter(given, given).size()", given.join(", "))
}

/// Rules for the transformer component.
pub(crate) fn transformer() -> Value {
    let mut rules = component();
    rules.push(rule(
        "has(self.containers) && size(self.containers) > 0",
        "Exactly one of [containers] must be specified in transformer",
    ));
    rules.into()
}

/// Rules for the explainer component.
pub(crate) fn explainer() -> Value {
    let mut rules = component();
    rules.push(rule(
        "has(self.art) != (has(self.containers) && size(self.containers) > 0)",
        "Exactly one of [art, containers] must be specified in explainer",
    ));
    rules.into()
}

/// Rules for one entry of `storageUris`.
pub(crate) fn storage_uri() -> Value {
    json!([rule(
        "!has(self.mountPath) || (self.mountPath.startsWith('/') && !self.mountPath.contains('..'))",
        "mountPath must be absolute and without '..'",
    )])
}

/// Rules for the storage of a logger.
pub(crate) fn logger_storage() -> Value {
    json!([rule(
        "has(self.path) && has(self.parameters) && has(self.key)",
        "logger storage needs path, parameters and key",
    )])
}

/// Rules for a serving runtime.
pub(crate) fn serving_runtime() -> Value {
    json!([rule(
        "!has(self.supportedModelFormats) || self.supportedModelFormats.all(f, \
         !has(f.priority) || self.supportedModelFormats.all(g, \
         g.name != f.name || !has(g.priority) || g.priority == f.priority))",
        "different priorities assigned for the model format",
    )])
}

/// Rules for the fields that predictor, transformer and explainer share.
fn component() -> Vec<Value> {
    vec![
        rule("!has(self.minReplicas) || self.minReplicas >= 0", "'MinReplicas' cannot be less than 0"),
        rule("!has(self.maxReplicas) || self.maxReplicas >= 0", "'MaxReplicas' cannot be less than 0"),
        rule(
            "!has(self.maxReplicas) || self.maxReplicas <= 0 || \
             (has(self.minReplicas) ? self.minReplicas : 1) <= self.maxReplicas",
            "'MinReplicas' cannot be greater than MaxReplicas",
        ),
        rule("!has(self.containerConcurrency) || self.containerConcurrency >= 0", "parallelism cannot be less than 0"),
        rule("!has(self.timeout) || self.timeout >= 0", "timeout cannot be less than 0"),
        rule(
            "!has(self.canaryTrafficPercent) || \
             (self.canaryTrafficPercent >= 0 && self.canaryTrafficPercent <= 100)",
            "canaryTrafficPercent must be between 0 and 100",
        ),
    ]
}

fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}
