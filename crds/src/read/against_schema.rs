//! Checks a YAML tree against a schema and converts it to JSON.

use serde_json::{Map, Value as Json};

use super::Found;
use crate::diagnostic::{Position, Problem};
use crate::nearest::nearest;
use crate::quantity::is_quantity;
use crate::schema::{Fields, Schema, Schemas};
use crate::spans::{field_path, item_path};
use crate::yaml::{Content, Entry, Node, Scalar, Value};

/// Converts an object to JSON, without its status and without the fields that violate the schema. Also returns every
/// violation.
pub(super) fn json(node: &Node, schema: &Schema) -> (Json, Vec<Found>) {
    let mut check = Check { schemas: Schemas::all(), around: Vec::new(), problems: Vec::new() };
    let mut json = check.value("", node, schema);
    if let Some(metadata) = node.field("metadata")
        && metadata.field("name").is_none_or(Node::is_null)
    {
        let field = "metadata.name".to_owned();
        check.problem(metadata.position, field, Problem::Missing);
    }
    if let Some(fields) = json.as_object_mut() {
        fields.remove("status");
    }
    (json, check.problems)
}

/// Maximum number of problems before suggestions for unknown fields stop. Each suggestion compares the field with all
/// names nearby, and a text with more errors is probably another kind of object.
const MAX_SUGGESTED: usize = 64;

struct Check<'schemas> {
    schemas: &'schemas Schemas,
    /// Enclosing objects, outermost first, for suggestions: a misplaced field often belongs to one of them.
    around: Vec<(String, &'schemas Fields)>,
    problems: Vec<Found>,
}

impl<'schemas> Check<'schemas> {
    /// Converts a value to JSON; `null` if it violates the schema.
    fn value(&mut self, path: &str, node: &Node, schema: &'schemas Schema) -> Json {
        let schema = self.schemas.resolve(schema);
        match (schema, &node.content) {
            (Schema::Any, _) => node.to_json(),
            (Schema::Object(fields), Content::Map(entries)) => self.object(path, node, entries, fields),
            (Schema::Map(below), Content::Map(entries)) => self.map(path, entries, below),
            (Schema::List(below), Content::List(items)) => self.list(path, items, below),
            (Schema::Object(_) | Schema::Map(_), _) => self.wrong(path, node, "a mapping"),
            (Schema::List(_), _) => self.wrong(path, node, "a list"),
            (
                Schema::Text(_)
                | Schema::Integer(_)
                | Schema::Number
                | Schema::Boolean
                | Schema::IntegerOrText
                | Schema::Quantity
                | Schema::Named(_),
                _,
            ) => self.scalar(path, node, schema),
        }
    }

    fn object(&mut self, path: &str, node: &Node, entries: &[Entry], fields: &'schemas Fields) -> Json {
        let mut object = Map::new();
        let mut missing = fields.required.clone();
        self.around.push((path.to_owned(), fields));
        for entry in entries {
            let Some(schema) = fields.known.get(&entry.key) else {
                let meant = self.unknown(path, entries, entry);
                missing.retain(|name| Some(name) != meant.as_ref());
                continue;
            };
            // Kubernetes treats a field without a value as absent.
            if !entry.value.is_null() {
                let value = self.value(&field_path(path, &entry.key), &entry.value, schema);
                if !value.is_null() {
                    object.insert(entry.key.clone(), value);
                }
                missing.retain(|name| *name != entry.key);
            }
        }
        self.around.pop();
        for name in missing {
            self.problem(node.position, field_path(path, &name), Problem::Missing);
        }
        object.into()
    }

    /// Reports an unknown field, and returns the suggested one, which is then not reported as missing.
    fn unknown(&mut self, path: &str, entries: &[Entry], entry: &Entry) -> Option<String> {
        let is_few = self.problems.len() < MAX_SUGGESTED;
        let nearest = is_few.then(|| self.nearest_field(path, entries, &entry.key));
        let nearest = nearest.flatten();
        let problem = Problem::UnknownField { nearest: nearest.clone() };
        self.problem(entry.position, field_path(path, &entry.key), problem);
        nearest
    }

    fn map(&mut self, path: &str, entries: &[Entry], below: &'schemas Schema) -> Json {
        let mut object = Map::new();
        for entry in entries {
            let value = self.value(&field_path(path, &entry.key), &entry.value, below);
            object.insert(entry.key.clone(), value);
        }
        object.into()
    }

    fn list(&mut self, path: &str, items: &[Node], below: &'schemas Schema) -> Json {
        let mut list = Vec::new();
        for (i, item) in items.iter().enumerate() {
            list.push(self.value(&item_path(path, i), item, below));
        }
        list.into()
    }

    fn scalar(&mut self, path: &str, node: &Node, schema: &Schema) -> Json {
        let Content::Scalar(scalar) = &node.content else {
            return self.wrong(path, node, expected(schema));
        };
        match (schema, scalar.value) {
            (Schema::Text(words), Value::Text) => self.word(path, node, words, &scalar.written),
            (Schema::Text(_), Value::Boolean(_) | Value::Integer(_) | Value::Float(_)) => {
                let found = node.described();
                self.problem(node.position, path.to_owned(), Problem::Unquoted { found })
            }
            (Schema::Integer(range), Value::Integer(found)) if !range.contains(&found) => {
                let (least, most) = (*range.start(), *range.end());
                let problem = Problem::OutOfRange { found, least, most };
                self.problem(node.position, path.to_owned(), problem)
            }
            (Schema::Quantity, Value::Integer(_) | Value::Float(_) | Value::Text) => self.quantity(path, node, scalar),
            (Schema::Integer(_) | Schema::Number | Schema::IntegerOrText, Value::Integer(_))
            | (Schema::Number, Value::Float(_))
            | (Schema::Boolean, Value::Boolean(_))
            | (Schema::IntegerOrText, Value::Text) => node.to_json(),
            // All other combinations of schema and value are type errors. There are about forty, so they are not
            // listed.
            _ => self.wrong(path, node, expected(schema)),
        }
    }

    /// Converts a quantity, written as a number or text, to text.
    fn quantity(&mut self, path: &str, node: &Node, scalar: &Scalar) -> Json {
        let text = match scalar.value {
            Value::Integer(number) => number.to_string(),
            Value::Null | Value::Boolean(_) | Value::Float(_) | Value::Text => scalar.written.clone(),
        };
        if is_quantity(&text) {
            return text.into();
        }
        self.problem(node.position, path.to_owned(), Problem::Quantity(text))
    }

    fn word(&mut self, path: &str, node: &Node, words: &[String], written: &str) -> Json {
        if words.is_empty() || words.iter().any(|word| word == written) {
            return written.into();
        }
        let nearest = nearest(words.iter().map(String::as_str), written);
        let problem = Problem::UnknownWord {
            found: written.to_owned(),
            known: words.to_vec(),
            nearest: nearest.map(str::to_owned),
        };
        self.problem(node.position, path.to_owned(), problem)
    }

    /// Suggests a field: one with the same name one level below or further out, otherwise one with a similar name on
    /// this level.
    fn nearest_field(&self, path: &str, entries: &[Entry], written: &str) -> Option<String> {
        let (_, fields) = self.around.last()?;
        let has = |entry: &&Entry| {
            fields.known.get(&entry.key).is_some_and(|schema| {
                matches!(self.schemas.resolve(schema), Schema::Object(below) if below.known.contains_key(written))
            })
        };
        if let Some(entry) = entries.iter().find(has) {
            return Some(field_path(&field_path(path, &entry.key), written));
        }
        let mut outwards = self.around.iter().rev().skip(1);
        if let Some((outer, _)) = outwards.find(|(_, fields)| fields.known.contains_key(written)) {
            return Some(field_path(outer, written));
        }
        nearest(fields.known.keys().map(String::as_str), written).map(str::to_owned)
    }

    fn wrong(&mut self, path: &str, node: &Node, expected: &'static str) -> Json {
        let found = node.described();
        self.problem(node.position, path.to_owned(), Problem::WrongType { expected, found })
    }

    fn problem(&mut self, position: Position, path: String, problem: Problem) -> Json {
        self.problems.push((position, path, problem));
        Json::Null
    }
}

fn expected(schema: &Schema) -> &'static str {
    match schema {
        Schema::Any | Schema::Named(_) => "a value",
        Schema::Object(_) | Schema::Map(_) => "a mapping",
        Schema::List(_) => "a list",
        Schema::Text(_) => "text",
        Schema::Integer(_) => "an integer",
        Schema::Number => "a number",
        Schema::Boolean => "true or false",
        Schema::IntegerOrText => "an integer or text",
        Schema::Quantity => "a quantity",
    }
}
