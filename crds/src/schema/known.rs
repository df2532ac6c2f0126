//! The schemas of the three kinds and of every Kubernetes type in them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::apps::v1::DeploymentStrategy;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::{Fields, Schema};
use crate::inference_service::InferenceServiceSpec;
use crate::serving_runtime::ServingRuntimeSpec;

/// Schemas by the name of the type.
pub(crate) struct Schemas {
    by_name: BTreeMap<String, Schema>,
}

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::new);

impl Schemas {
    /// The schemas of all types; computed once.
    pub(crate) fn all() -> &'static Self {
        &SCHEMAS
    }

    /// Schema of an InferenceService object.
    pub(crate) fn inference_service() -> Schema {
        envelope::<InferenceServiceSpec>()
    }

    /// Schema of a ServingRuntime or ClusterServingRuntime object.
    pub(crate) fn serving_runtime() -> Schema {
        envelope::<ServingRuntimeSpec>()
    }

    /// Resolves a reference to a named type; other schemas are returned unchanged.
    pub(crate) fn resolve<'a>(&'a self, schema: &'a Schema) -> &'a Schema {
        match schema {
            Schema::Named(name) => self.by_name.get(name).unwrap_or(&Schema::Any),
            schema => schema,
        }
    }

    fn new() -> Self {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        generator.subschema_for::<InferenceServiceSpec>();
        generator.subschema_for::<ServingRuntimeSpec>();
        generator.subschema_for::<ObjectMeta>();
        generator.subschema_for::<PodSpec>();
        generator.subschema_for::<DeploymentStrategy>();
        generator.subschema_for::<HorizontalPodAutoscalerBehavior>();
        let mut by_name: BTreeMap<_, _> =
            generator.definitions().iter().map(|(name, schema)| (name.clone(), Schema::of(schema))).collect();
        // The JSON schema allows any integer or text, but quantities include fractions and exclude most texts.
        by_name.insert(Quantity::schema_name().into_owned(), Schema::Quantity);
        let calls = by_name.iter_mut().filter(|(name, _)| is_probe_call(name));
        calls.for_each(|(_, schema)| without_port(schema));
        Self { by_name }
    }
}

/// Suffixes of the names of probe handler types.
const PROBE_CALLS: [&str; 3] = [".HTTPGetAction", ".TCPSocketAction", ".GRPCAction"];

fn is_probe_call(name: &str) -> bool {
    PROBE_CALLS.iter().any(|call| name.ends_with(call))
}

/// Makes the port of a probe optional: the default is the serving port, as in KServe.
fn without_port(schema: &mut Schema) {
    if let Schema::Object(fields) = schema {
        fields.required.retain(|field| field != "port");
    }
}

/// Schema of an object: `apiVersion`, `kind`, `metadata`, `spec`, and any `status`, as kubectl prints it.
fn envelope<Spec: JsonSchema>() -> Schema {
    let fields = [
        ("apiVersion", Schema::Text(Vec::new())),
        ("kind", Schema::Text(Vec::new())),
        ("metadata", Schema::Named(ObjectMeta::schema_name().into_owned())),
        ("spec", Schema::Named(Spec::schema_name().into_owned())),
        ("status", Schema::Any),
    ];
    let required = ["apiVersion", "kind", "metadata", "spec"];
    Schema::Object(Fields {
        known: fields.map(|(name, schema)| (name.to_owned(), schema)).into(),
        required: required.map(str::to_owned).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Schema, Schemas};

    fn names(schema: &Schema, found: &mut Vec<String>) {
        match schema {
            Schema::Object(fields) => fields.known.values().for_each(|field| names(field, found)),
            Schema::Map(inner) | Schema::List(inner) => names(inner, found),
            Schema::Named(name) => found.push(name.clone()),
            Schema::Any
            | Schema::Text(_)
            | Schema::Integer(_)
            | Schema::Number
            | Schema::Boolean
            | Schema::IntegerOrText
            | Schema::Quantity => {}
        }
    }

    #[test]
    fn every_name_is_known() {
        let schemas = Schemas::all();
        let mut found = Vec::new();
        schemas.by_name.values().for_each(|schema| names(schema, &mut found));
        assert!(found.iter().any(|name| name.ends_with("v1.Container")));
        for name in found {
            assert!(schemas.by_name.contains_key(&name), "{name}");
        }
    }

    /// A part of a JSON schema that is not understood would accept every value.
    #[test]
    fn every_type_and_field_is_understood() {
        let anything = |schema: &Schema| match schema {
            Schema::Any => true,
            Schema::Map(inner) | Schema::List(inner) => **inner == Schema::Any,
            _ => false,
        };
        for (name, schema) in &Schemas::all().by_name {
            let Schema::Object(fields) = schema else {
                assert!(!anything(schema) || name.ends_with("FieldsV1"), "{name}");
                continue;
            };
            for (field, schema) in &fields.known {
                assert!(!anything(schema), "{name}.{field}: {schema:?}");
            }
        }
    }
}
