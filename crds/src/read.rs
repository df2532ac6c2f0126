//! Reads manifests, and reports every error with its position.

mod against_schema;
mod document;
mod kind;

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, Position, Problem};
use crate::inference_service::InferenceService;
use crate::schema::{Schema, Schemas};
use crate::serving_runtime::{ClusterServingRuntime, ServingRuntime};
use crate::spans::{Spans, field_path};
use crate::storage_container::StorageContainer;
use crate::yaml::{self, Content, Node, Syntax};
pub use document::{ReadDocument, read_document};
use kind::Kind;

/// An object and the positions of its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object as written, without defaults.
    pub object: Object,
    /// Positions of the object's fields.
    pub spans: Spans,
}

/// An object of a manifest, as written, without defaults.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// An inference service with its model.
    InferenceService(Arc<InferenceService>),
    /// A runtime for one namespace.
    ServingRuntime(Box<ServingRuntime>),
    /// A runtime for all namespaces.
    ClusterServingRuntime(Box<ClusterServingRuntime>),
    /// An enabled container that fetches models for all namespaces, read without a check of its fields.
    StorageContainer(Box<StorageContainer>),
    /// An object of another kind, such as a Secret. Only its name is read.
    Other {
        /// Kind of the object.
        kind: String,
        /// Name of the object; empty if the cluster generates the name.
        name: String,
    },
}

/// Objects and errors found in a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Objects without any errors.
    pub manifests: Vec<Manifest>,
    /// Objects with errors in single fields, without those fields.
    pub incomplete: Vec<Incomplete>,
    /// The objects with errors, including the incomplete ones, as far as their text could be separated.
    pub broken: Vec<Broken>,
    /// All errors, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Identity of an object with errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// An object with this name.
    Named(String),
    /// A text in which no name was found. It may be several objects, of any name.
    Unnamed,
}

impl Broken {
    /// Returns the identity of the object in a node.
    fn of(node: &Node) -> Self {
        let name = node.field("metadata").and_then(|metadata| metadata.field("name"));
        let name = name.and_then(Node::text).filter(|name| !name.is_empty());
        name.map_or(Self::Unnamed, |name| Self::Named(name.to_owned()))
    }
}

/// Object from which the invalid fields were removed, so that further errors can be found in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Incomplete {
    /// The object without its invalid fields.
    pub manifest: Manifest,
    /// Paths of the removed fields, and of the fields that misspelt ones were probably meant to be.
    left_out: Vec<String>,
}

impl Incomplete {
    /// Returns true if an error in this field may be a consequence of the removal: the field was removed, is inside a
    /// removed field, or is the object that contained one.
    #[must_use]
    pub fn is_unsure(&self, field: &str) -> bool {
        let is_below = |below: &str, above: &str| {
            below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.left_out.iter().any(|left_out| is_below(field, left_out) || parent(left_out) == field)
    }
}

/// Returns the path of the object that contains a field.
fn parent(field: &str) -> &str {
    field.rfind(['.', '[']).map_or("", |end| &field[..end])
}

/// Reads every object of a text: documents of YAML, or lists of objects, as kubectl or the API server prints them.
/// `file` names the text in diagnostics. `status` is not read.
///
/// # Errors
///
/// Every error of every document, in the order of the text, when there is one.
pub fn read(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<Diagnostic>> {
    let Reading { manifests, diagnostics, .. } = read_all(file, text);
    if diagnostics.is_empty() { Ok(manifests) } else { Err(diagnostics) }
}

/// Reads the objects of a text that have no errors, and every error of the others, as [`read`] does. An error in one
/// object hides no other object, and one in a field hides no other field.
#[must_use]
pub fn read_all(file: &str, text: &str) -> Reading {
    let mut reader = Reader { file, reading: Reading::default() };
    let (documents, problems) = yaml::documents(text);
    if !problems.is_empty() {
        reader.reading.broken.push(Broken::Unnamed);
    }
    let syntax = |(position, problem)| (position, String::new(), problem);
    reader.diagnostics(problems.into_iter().map(syntax));
    for document in &documents {
        let before = (reader.reading.manifests.len(), reader.reading.incomplete.len());
        reader.document(&document.root);
        match document.syntax {
            Syntax::Sound => {}
            Syntax::Faulty => {
                reader.reading.manifests.truncate(before.0);
                reader.reading.incomplete.truncate(before.1);
            }
        }
    }
    reader.reading.diagnostics.sort_by_key(|diagnostic| diagnostic.position);
    reader.reading
}

fn shared(service: Box<InferenceService>) -> Object {
    Object::InferenceService(service.into())
}

/// Reads a ClusterStorageContainer; one that fetches no models of services counts as another kind.
fn storage_container(node: &Node, name: String) -> Object {
    match StorageContainer::read(&name, &node.to_json()) {
        Some(container) => Object::StorageContainer(Box::new(container)),
        None => Object::Other { kind: "ClusterStorageContainer".to_owned(), name },
    }
}

/// A problem with its position and field.
type Found = (Position, String, Problem);

struct Reader<'text> {
    file: &'text str,
    reading: Reading,
}

/// Result of reading one object.
enum ReadObject {
    Valid(Object),
    /// The object without its invalid fields, and the paths of these.
    Incomplete(Object, Vec<String>),
}

impl Reader<'_> {
    fn document(&mut self, node: &Node) {
        if !kind::is_list(node) {
            return self.object(node);
        }
        let field = "items".to_owned();
        match node.field("items") {
            // The API server writes an empty list as null.
            Some(items) if items.is_null() => {}
            Some(items) => match &items.content {
                Content::List(items) => items.iter().for_each(|item| self.document(item)),
                Content::Map(_) | Content::Scalar(_) => {
                    let (expected, found) = ("a list", items.described());
                    let problem = Problem::WrongType { expected, found };
                    self.reading.broken.push(Broken::Unnamed);
                    self.diagnostics([(items.position, field, problem)]);
                }
            },
            None => {
                self.reading.broken.push(Broken::Unnamed);
                self.diagnostics([(node.position, field, Problem::Missing)]);
            }
        }
    }

    fn object(&mut self, node: &Node) {
        let service = Schemas::inference_service;
        let runtime = Schemas::serving_runtime;
        let read = match Kind::of(node) {
            Ok(Kind::InferenceService) => self.typed(node, &service(), shared),
            Ok(Kind::ServingRuntime) => self.typed(node, &runtime(), Object::ServingRuntime),
            Ok(Kind::ClusterServingRuntime) => self.typed(node, &runtime(), Object::ClusterServingRuntime),
            Ok(Kind::ClusterStorageContainer { name }) => Some(ReadObject::Valid(storage_container(node, name))),
            Ok(Kind::Other { kind, name }) => Some(ReadObject::Valid(Object::Other { kind, name })),
            Err(found) => {
                self.diagnostics([found]);
                None
            }
        };
        let manifest = |object| Manifest { object, spans: Spans::of(self.file, node) };
        match read {
            Some(ReadObject::Valid(object)) => self.reading.manifests.push(manifest(object)),
            Some(ReadObject::Incomplete(object, left_out)) => {
                self.reading.broken.push(Broken::of(node));
                self.reading.incomplete.push(Incomplete { manifest: manifest(object), left_out });
            }
            None => self.reading.broken.push(Broken::of(node)),
        }
    }

    /// Reads an object of type `T`; `None` if it cannot be read even without its invalid fields.
    fn typed<T: DeserializeOwned>(
        &mut self,
        node: &Node,
        schema: &Schema,
        object: impl FnOnce(Box<T>) -> Object,
    ) -> Option<ReadObject> {
        let (json, found) = against_schema::json(node, schema);
        let read = serde_json::from_value(json).map(|read| object(Box::new(read)));
        let left_out: Vec<String> = found.iter().flat_map(left_out).collect();
        let is_sound = found.is_empty();
        self.diagnostics(found);
        match read {
            Ok(object) if is_sound => Some(ReadObject::Valid(object)),
            Ok(object) => Some(ReadObject::Incomplete(object, left_out)),
            // An object without its invalid fields may lack required ones.
            Err(_) if !is_sound => None,
            // The schemas are derived from the types, so this error is one that a schema cannot express.
            Err(error) => {
                self.diagnostics([(node.position, String::new(), Problem::Syntax(error.to_string()))]);
                None
            }
        }
    }

    fn diagnostics(&mut self, found: impl IntoIterator<Item = Found>) {
        let diagnostics = found.into_iter().map(|(position, field, problem)| Diagnostic {
            file: self.file.to_owned(),
            position,
            field,
            problem,
        });
        self.reading.diagnostics.extend(diagnostics);
    }
}

/// Returns the field of a problem and, if it is misspelt, the field that was probably meant.
fn left_out((_, field, problem): &Found) -> Vec<String> {
    let meant = match problem {
        Problem::UnknownField { nearest: Some(nearest) } if nearest.contains('.') => Some(nearest.clone()),
        Problem::UnknownField { nearest: Some(nearest) } => Some(field_path(parent(field), nearest)),
        _ => None,
    };
    std::iter::once(field.clone()).chain(meant).collect()
}
