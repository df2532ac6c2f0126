//! Schemas of manifests, derived from the JSON schemas of the types.

mod known;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

pub(crate) use known::Schemas;

use crate::pod::STANDS_FOR;

/// The schema of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Schema {
    /// Any value is allowed.
    Any,
    /// A mapping with known fields.
    Object(Fields),
    /// A mapping with arbitrary keys.
    Map(Box<Schema>),
    /// A list of such items.
    List(Box<Schema>),
    /// Text; if the list is not empty, one of these words.
    Text(Vec<String>),
    /// An integer within these bounds.
    Integer(RangeInclusive<i64>),
    /// A number, whole or not.
    Number,
    /// One of `true` and `false`.
    Boolean,
    /// An integer or text, as for a port.
    IntegerOrText,
    /// A Kubernetes quantity, as for memory.
    Quantity,
    /// The schema of the type with this name.
    Named(String),
}

/// Known and required fields of a mapping.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    pub(crate) known: BTreeMap<String, Schema>,
    pub(crate) required: Vec<String>,
}

impl Schema {
    /// Converts a JSON schema. Only the parts of JSON Schema that the derive macros and Kubernetes' types use are
    /// understood. `null` is not part of the result: the reader treats it as an absent field.
    pub(crate) fn of(schema: &Value) -> Self {
        let Some(schema) = schema.as_object() else {
            return Self::Any;
        };
        if let Some(name) = reference(schema) {
            return Self::Named(name.to_owned());
        }
        match alternatives(schema).as_deref() {
            Some([only]) => Self::of(only),
            Some(several) => words(several.iter().copied()),
            None => by_type(schema),
        }
    }
}

fn by_type(schema: &Map<String, Value>) -> Schema {
    if schema.get("x-kubernetes-int-or-string") == Some(&true.into()) {
        return Schema::IntegerOrText;
    }
    match kind(schema) {
        Some("object") => object(schema),
        Some("array") => Schema::List(Box::new(below(schema, "items"))),
        Some("integer") => Schema::Integer(range(schema)),
        Some("number") => Schema::Number,
        Some("boolean") => Schema::Boolean,
        Some("string") => {
            let choices = schema.get("enum").and_then(Value::as_array);
            words(choices.into_iter().flatten())
        }
        Some(_) | None => Schema::Any,
    }
}

fn reference(schema: &Map<String, Value>) -> Option<&str> {
    let name = schema.get(STANDS_FOR).or_else(|| schema.get("$ref"))?;
    name.as_str()?.rsplit('/').next()
}

/// Returns the alternatives of a schema, except `null`.
fn alternatives(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    let all = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    let is_null = |schema: &Value| schema.get("type") == Some(&"null".into());
    Some(all.as_array()?.iter().filter(|one| !is_null(one)).collect())
}

/// Returns the type of a schema, except `null`.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type")? {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        one => one.as_str(),
    }
}

/// Collects words, which are given as plain values, in an `enum`, or as a documented `const`.
fn words<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> Schema {
    let mut words = Vec::new();
    for schema in schemas {
        match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => words.push(word),
            (None, Some(several)) => words.extend(several),
            (None, None) => words.push(schema),
        }
    }
    Schema::Text(words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect())
}

fn object(schema: &Map<String, Value>) -> Schema {
    let Some(known) = schema.get("properties").and_then(Value::as_object) else {
        return Schema::Map(Box::new(below(schema, "additionalProperties")));
    };
    let required = schema.get("required").and_then(Value::as_array);
    Schema::Object(Fields {
        known: known.iter().map(|(name, schema)| (name.clone(), Schema::of(schema))).collect(),
        required: required.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
    })
}

fn below(schema: &Map<String, Value>, keyword: &str) -> Schema {
    schema.get(keyword).map_or(Schema::Any, Schema::of)
}

fn range(schema: &Map<String, Value>) -> RangeInclusive<i64> {
    let bound = |keyword| schema.get(keyword).and_then(Value::as_i64);
    let (least, most) = match schema.get("format").and_then(Value::as_str) {
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some(_) | None => (i64::MIN, i64::MAX),
    };
    bound("minimum").unwrap_or(least)..=bound("maximum").unwrap_or(most)
}
