//! The shapes of the three kinds and of every Kubernetes type they hold.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::apps::v1::DeploymentStrategy;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::{Fields, Shape};
use crate::inference_service::InferenceServiceSpec;
use crate::serving_runtime::ServingRuntimeSpec;

/// Shapes by the name of their type.
pub(crate) struct Shapes {
    by_name: BTreeMap<String, Shape>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::new);

impl Shapes {
    /// All there are; made once.
    pub(crate) fn all() -> &'static Self {
        &SHAPES
    }

    /// A whole InferenceService.
    pub(crate) fn inference_service() -> Shape {
        envelope::<InferenceServiceSpec>()
    }

    /// A whole ServingRuntime, or ClusterServingRuntime.
    pub(crate) fn serving_runtime() -> Shape {
        envelope::<ServingRuntimeSpec>()
    }

    /// The shape itself, where one only names it.
    pub(crate) fn resolve<'a>(&'a self, shape: &'a Shape) -> &'a Shape {
        match shape {
            Shape::Named(name) => self.by_name.get(name).unwrap_or(&Shape::Any),
            shape => shape,
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
        let mut by_name: BTreeMap<_, _> = generator
            .definitions()
            .iter()
            .map(|(name, schema)| (name.clone(), Shape::of(schema)))
            .collect();
        // Its schema says integer or text; every number and not every text is meant.
        by_name.insert(Quantity::schema_name().into_owned(), Shape::Quantity);
        Self { by_name }
    }
}

/// `apiVersion`, `kind`, `metadata`, `spec` and `status`. What a file says of the status is the
/// cluster's own, printed by kubectl, and not looked at.
fn envelope<Spec: JsonSchema>() -> Shape {
    let fields = [
        ("apiVersion", Shape::Text(Vec::new())),
        ("kind", Shape::Text(Vec::new())),
        (
            "metadata",
            Shape::Named(ObjectMeta::schema_name().into_owned()),
        ),
        ("spec", Shape::Named(Spec::schema_name().into_owned())),
        ("status", Shape::Any),
    ];
    let required = ["apiVersion", "kind", "metadata", "spec"];
    Shape::Object(Fields {
        known: fields.map(|(name, shape)| (name.to_owned(), shape)).into(),
        required: required.map(str::to_owned).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Shape, Shapes};

    fn names(shape: &Shape, found: &mut Vec<String>) {
        match shape {
            Shape::Object(fields) => fields.known.values().for_each(|field| names(field, found)),
            Shape::Map(inner) | Shape::List(inner) => names(inner, found),
            Shape::Named(name) => found.push(name.clone()),
            Shape::Any
            | Shape::Text(_)
            | Shape::Integer(_)
            | Shape::Number
            | Shape::Boolean
            | Shape::IntegerOrText
            | Shape::Quantity => {}
        }
    }

    #[test]
    fn every_name_is_known() {
        let shapes = Shapes::all();
        let mut found = Vec::new();
        shapes
            .by_name
            .values()
            .for_each(|shape| names(shape, &mut found));
        assert!(found.iter().any(|name| name.ends_with("v1.Container")));
        for name in found {
            assert!(shapes.by_name.contains_key(&name), "{name}");
        }
    }

    /// A schema that the reader does not understand would let everything pass.
    #[test]
    fn nothing_passes_unread() {
        let anything = |shape: &Shape| match shape {
            Shape::Any => true,
            Shape::Map(inner) | Shape::List(inner) => **inner == Shape::Any,
            _ => false,
        };
        for (name, shape) in &Shapes::all().by_name {
            let Shape::Object(fields) = shape else {
                assert!(!anything(shape) || name.ends_with("FieldsV1"), "{name}");
                continue;
            };
            for (field, shape) in &fields.known {
                assert!(!anything(shape), "{name}.{field}: {shape:?}");
            }
        }
    }
}
