//! Reads manifests, and reports every error with its position.

mod against_schema;
mod kind;

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, Position, Problem};
use crate::inference_service::InferenceService;
use crate::schema::{Schema, Schemas};
use crate::serving_runtime::{ClusterServingRuntime, ServingRuntime};
use crate::spans::Spans;
use crate::yaml::{self, Content, Node, Syntax};
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
    /// An object of another kind, such as a Secret. Only its name is read.
    Other {
        /// Kind of the object.
        kind: String,
        /// Name of the object; empty if the cluster generates the name.
        name: String,
    },
}

/// Reads every object of a text: YAML documents, or lists of objects as kubectl or the API server prints them. `file`
/// is the name used in diagnostics. `status` is not read.
///
/// # Errors
///
/// Every error of every document, in the order of the text, when there is one.
pub fn read(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<Diagnostic>> {
    let (manifests, diagnostics) = read_valid(file, text);
    if diagnostics.is_empty() { Ok(manifests) } else { Err(diagnostics) }
}

/// Reads the valid objects of a text, and returns all errors of the others, as [`read`] does. An error in one object
/// does not hide the other objects.
#[must_use]
pub fn read_valid(file: &str, text: &str) -> (Vec<Manifest>, Vec<Diagnostic>) {
    let mut reader = Reader { file, diagnostics: Vec::new(), manifests: Vec::new() };
    let (documents, problems) = yaml::documents(text);
    let syntax = |(position, problem)| (position, String::new(), problem);
    reader.diagnostics(problems.into_iter().map(syntax));
    for document in &documents {
        let valid_before = reader.manifests.len();
        reader.document(&document.root);
        match document.syntax {
            Syntax::Sound => {}
            Syntax::Faulty => reader.manifests.truncate(valid_before),
        }
    }
    reader.diagnostics.sort_by_key(|diagnostic| diagnostic.position);
    (reader.manifests, reader.diagnostics)
}

fn shared(service: Box<InferenceService>) -> Object {
    Object::InferenceService(service.into())
}

/// A problem with its position and field.
type Found = (Position, String, Problem);

struct Reader<'text> {
    file: &'text str,
    diagnostics: Vec<Diagnostic>,
    manifests: Vec<Manifest>,
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
                    self.diagnostics([(items.position, field, problem)]);
                }
            },
            None => self.diagnostics([(node.position, field, Problem::Missing)]),
        }
    }

    fn object(&mut self, node: &Node) {
        let service = Schemas::inference_service;
        let runtime = Schemas::serving_runtime;
        let read = match Kind::of(node) {
            Ok(Kind::InferenceService) => self.typed(node, &service()).map(shared),
            Ok(Kind::ServingRuntime) => self.typed(node, &runtime()).map(Object::ServingRuntime),
            Ok(Kind::ClusterServingRuntime) => self.typed(node, &runtime()).map(Object::ClusterServingRuntime),
            Ok(Kind::Other { kind, name }) => Some(Object::Other { kind, name }),
            Err(found) => {
                self.diagnostics([found]);
                None
            }
        };
        self.manifests.extend(read.map(|object| Manifest { object, spans: Spans::of(self.file, node) }));
    }

    /// Reads an object of type `T`; `None` when it has errors.
    fn typed<T: DeserializeOwned>(&mut self, node: &Node, schema: &Schema) -> Option<Box<T>> {
        let read = against_schema::json(node, schema).and_then(|json| {
            // The schemas are derived from the types, so an error here is one that a schema cannot express.
            serde_json::from_value(json).map_err(|error| {
                let problem = Problem::Syntax(error.to_string());
                vec![(node.position, String::new(), problem)]
            })
        });
        match read {
            Ok(object) => Some(Box::new(object)),
            Err(found) => {
                self.diagnostics(found);
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
        self.diagnostics.extend(diagnostics);
    }
}
