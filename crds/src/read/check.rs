//! Compares a tree with a shape and makes JSON of it.

use serde_json::{Map, Value as Json};

use super::Found;
use crate::mistake::{Place, Problem};
use crate::nearest::nearest;
use crate::places::{field_path, item_path};
use crate::quantity::is_quantity;
use crate::shape::{Fields, Shape, Shapes};
use crate::yaml::{Content, Entry, Node, Scalar, Value};

/// The object as its type reads it, without the status.
///
/// # Errors
///
/// Everything that does not fit the shape.
pub(super) fn json(node: &Node, shape: &Shape) -> Result<Json, Vec<Found>> {
    let mut check = Check {
        shapes: Shapes::all(),
        around: Vec::new(),
        problems: Vec::new(),
    };
    let mut json = check.value("", node, shape);
    if let Some(metadata) = node.field("metadata")
        && metadata.field("name").is_none_or(Node::is_null)
    {
        let field = "metadata.name".to_owned();
        check.problem(metadata.place, field, Problem::Missing);
    }
    if let Some(fields) = json.as_object_mut() {
        fields.remove("status");
    }
    if check.problems.is_empty() {
        Ok(json)
    } else {
        Err(check.problems)
    }
}

struct Check<'shapes> {
    shapes: &'shapes Shapes,
    /// Objects around the one at hand, outermost first: a misplaced field is often one of theirs.
    around: Vec<(String, &'shapes Fields)>,
    problems: Vec<Found>,
}

impl<'shapes> Check<'shapes> {
    /// The value as its type reads it; `null` where it is wrong.
    fn value(&mut self, path: &str, node: &Node, shape: &'shapes Shape) -> Json {
        let shape = self.shapes.resolve(shape);
        match (shape, &node.content) {
            (Shape::Any, _) => node.to_json(),
            (Shape::Object(fields), Content::Map(entries)) => {
                self.object(path, node, entries, fields)
            }
            (Shape::Map(below), Content::Map(entries)) => self.map(path, entries, below),
            (Shape::List(below), Content::List(items)) => self.list(path, items, below),
            (Shape::Object(_) | Shape::Map(_), _) => self.wrong(path, node, "a mapping"),
            (Shape::List(_), _) => self.wrong(path, node, "a list"),
            (
                Shape::Text(_)
                | Shape::Integer(_)
                | Shape::Number
                | Shape::Boolean
                | Shape::IntegerOrText
                | Shape::Quantity
                | Shape::Named(_),
                _,
            ) => self.scalar(path, node, shape),
        }
    }

    fn object(
        &mut self,
        path: &str,
        node: &Node,
        entries: &[Entry],
        fields: &'shapes Fields,
    ) -> Json {
        let mut object = Map::new();
        let mut missing = fields.required.clone();
        self.around.push((path.to_owned(), fields));
        for entry in entries {
            let Some(shape) = fields.known.get(&entry.key) else {
                let meant = self.unknown(path, entries, entry);
                missing.retain(|name| Some(name) != meant.as_ref());
                continue;
            };
            // Kubernetes takes a field without a value for one that is not there.
            if !entry.value.is_null() {
                let value = self.value(&field_path(path, &entry.key), &entry.value, shape);
                object.insert(entry.key.clone(), value);
                missing.retain(|name| *name != entry.key);
            }
        }
        self.around.pop();
        for name in missing {
            self.problem(node.place, field_path(path, &name), Problem::Missing);
        }
        object.into()
    }

    /// The field that was meant, which then is not missing too.
    fn unknown(&mut self, path: &str, entries: &[Entry], entry: &Entry) -> Option<String> {
        let nearest = self.nearest_field(path, entries, &entry.key);
        let problem = Problem::UnknownField {
            nearest: nearest.clone(),
        };
        self.problem(entry.place, field_path(path, &entry.key), problem);
        nearest
    }

    fn map(&mut self, path: &str, entries: &[Entry], below: &'shapes Shape) -> Json {
        let mut object = Map::new();
        for entry in entries {
            let value = self.value(&field_path(path, &entry.key), &entry.value, below);
            object.insert(entry.key.clone(), value);
        }
        object.into()
    }

    fn list(&mut self, path: &str, items: &[Node], below: &'shapes Shape) -> Json {
        let mut list = Vec::new();
        for (i, item) in items.iter().enumerate() {
            list.push(self.value(&item_path(path, i), item, below));
        }
        list.into()
    }

    fn scalar(&mut self, path: &str, node: &Node, shape: &Shape) -> Json {
        let Content::Scalar(scalar) = &node.content else {
            return self.wrong(path, node, expected(shape));
        };
        match (shape, scalar.value) {
            (Shape::Text(words), Value::Text) => self.word(path, node, words, &scalar.written),
            (Shape::Text(_), Value::Boolean(_) | Value::Integer(_) | Value::Float(_)) => {
                let found = node.described();
                self.problem(node.place, path.to_owned(), Problem::Unquoted { found })
            }
            (Shape::Integer(range), Value::Integer(found)) if !range.contains(&found) => {
                let (least, most) = (*range.start(), *range.end());
                let problem = Problem::OutOfRange { found, least, most };
                self.problem(node.place, path.to_owned(), problem)
            }
            (Shape::Quantity, Value::Integer(_) | Value::Float(_) | Value::Text) => {
                self.quantity(path, node, scalar)
            }
            (Shape::Integer(_) | Shape::Number | Shape::IntegerOrText, Value::Integer(_))
            | (Shape::Number, Value::Float(_))
            | (Shape::Boolean, Value::Boolean(_))
            | (Shape::IntegerOrText, Value::Text) => node.to_json(),
            _ => self.wrong(path, node, expected(shape)),
        }
    }

    /// A quantity is text to its type, whatever it was written as.
    fn quantity(&mut self, path: &str, node: &Node, scalar: &Scalar) -> Json {
        let text = match scalar.value {
            Value::Integer(number) => number.to_string(),
            Value::Null | Value::Boolean(_) | Value::Float(_) | Value::Text => {
                scalar.written.clone()
            }
        };
        if is_quantity(&text) {
            return text.into();
        }
        self.problem(node.place, path.to_owned(), Problem::Quantity(text))
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
        self.problem(node.place, path.to_owned(), problem)
    }

    /// The field that was meant: one of the same name just below or further out, else one of much
    /// the same name here.
    fn nearest_field(&self, path: &str, entries: &[Entry], written: &str) -> Option<String> {
        let (_, fields) = self.around.last()?;
        let has = |entry: &&Entry| {
            fields.known.get(&entry.key).is_some_and(|shape| {
                matches!(self.shapes.resolve(shape), Shape::Object(below) if below.known.contains_key(written))
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
        self.problem(
            node.place,
            path.to_owned(),
            Problem::WrongType { expected, found },
        )
    }

    fn problem(&mut self, place: Place, path: String, problem: Problem) -> Json {
        self.problems.push((place, path, problem));
        Json::Null
    }
}

fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::Any | Shape::Named(_) => "a value",
        Shape::Object(_) | Shape::Map(_) => "a mapping",
        Shape::List(_) => "a list",
        Shape::Text(_) => "text",
        Shape::Integer(_) => "an integer",
        Shape::Number => "a number",
        Shape::Boolean => "true or false",
        Shape::IntegerOrText => "an integer or text",
        Shape::Quantity => "a quantity",
    }
}
