//! Kubernetes' types within the API types.
//!
//! The full schema of a PodSpec would make a definition of megabytes, which client-side `kubectl apply` cannot store.
//! The definitions therefore list the fields of the outermost level and accept any value below. Each such value is
//! marked with its Kubernetes type, and [`crate::read`] checks it against that type.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Schema keyword with the name of the Kubernetes type that a schema stands for. The definitions do not contain it,
/// because they allow only Kubernetes' keywords.
pub(crate) const STANDS_FOR: &str = "x-weir-stands-for";

/// Schema of a PodSpec's fields.
pub(crate) fn pod_fields(_: &mut SchemaGenerator) -> Schema {
    fields_of::<PodSpec>()
}

/// Schema of a Container's fields.
pub(crate) fn container_fields(_: &mut SchemaGenerator) -> Schema {
    fields_of::<Container>()
}

/// Schema of a Kubernetes object of type `T`.
pub(crate) fn object<T: JsonSchema>(_: &mut SchemaGenerator) -> Schema {
    opaque(&T::schema_name())
}

/// Schema of a list of Kubernetes objects of type `T`.
pub(crate) fn list<T: JsonSchema>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": opaque(&T::schema_name()) })
}

/// Serializes a pod without an empty list of containers, which Kubernetes' type always has.
pub(crate) fn serialize_pod<S: Serializer>(pod: &PodSpec, to: S) -> Result<S::Ok, S::Error> {
    without_empty("containers", pod).map_err(S::Error::custom)?.serialize(to)
}

/// Serializes a container without an empty name, which Kubernetes' type always has.
pub(crate) fn serialize_container<S: Serializer>(container: &Container, to: S) -> Result<S::Ok, S::Error> {
    without_empty("name", container).map_err(S::Error::custom)?.serialize(to)
}

fn without_empty(field: &str, of: &impl Serialize) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(of)?;
    if let Some(fields) = value.as_object_mut()
        && fields.get(field).is_some_and(is_empty)
    {
        fields.remove(field);
    }
    Ok(value)
}

fn is_empty(value: &Value) -> bool {
    value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns the schema of a Kubernetes type's outermost level. No field is required, because the object is merged over a
/// runtime's.
fn fields_of<T: JsonSchema>() -> Schema {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = T::json_schema(&mut generator);
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields: Map<String, Value> = fields
        .into_iter()
        .flatten()
        .map(|(name, field)| (name.clone(), shallow(field, generator.definitions())))
        .collect();
    json_schema!({ "type": "object", "properties": fields })
}

/// Returns a field's schema without its description, and with every nested type replaced by [`opaque`].
fn shallow(field: &Value, definitions: &Map<String, Value>) -> Value {
    let Some(field) = field.as_object() else {
        return field.clone();
    };
    if let Some(name) = field.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        return match definitions.get(name) {
            Some(definition) if definition.get("type") != Some(&"object".into()) => shallow(definition, definitions),
            _ => opaque(name).to_value(),
        };
    }
    let mut field = field.clone();
    field.remove("description");
    for below in ["items", "additionalProperties"] {
        if let Some(inner) = field.get_mut(below) {
            *inner = shallow(inner, definitions);
        }
    }
    field.into()
}

fn opaque(name: &str) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        STANDS_FOR: name,
    })
}
