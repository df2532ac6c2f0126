//! Reads manifests for people: every diagnostic, with its file, line, column and field.

mod against_schema;
mod kind;

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, Position, Problem};
use crate::inference_service::InferenceService;
use crate::schema::{Schema, Schemas};
use crate::serving_runtime::{ClusterServingRuntime, ServingRuntime};
use crate::spans::Spans;
use crate::yaml::{self, Content, Node};
use kind::Kind;

/// An object and where its fields are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object.
    pub object: Object,
    /// Where its fields are written.
    pub spans: Spans,
}

/// An object of a manifest, as written: no default is filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A model, served.
    InferenceService(Arc<InferenceService>),
    /// A pod template for model formats, for one namespace.
    ServingRuntime(Box<ServingRuntime>),
    /// A pod template for model formats, for every namespace.
    ClusterServingRuntime(Box<ClusterServingRuntime>),
    /// What people keep beside them: a PersistentVolumeClaim, a Secret. Only its name was read.
    Other {
        /// Its kind.
        kind: String,
        /// Its name; empty where the cluster chooses one.
        name: String,
    },
}

/// Reads every object of a text: documents of YAML, or `List`s of objects, as kubectl prints them.
/// `file` is what diagnostics call the text. What a manifest says under `status` is left out.
///
/// # Errors
///
/// Every diagnostic of every document, in the order of the text.
pub fn read(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<Diagnostic>> {
    let mut reader = Reader {
        file,
        diagnostics: Vec::new(),
        manifests: Vec::new(),
    };
    let (documents, problems) = yaml::documents(text);
    let syntax = |(position, problem)| (position, String::new(), problem);
    reader.diagnostics(problems.into_iter().map(syntax));
    for document in &documents {
        reader.document(document);
    }
    if reader.diagnostics.is_empty() {
        return Ok(reader.manifests);
    }
    reader
        .diagnostics
        .sort_by_key(|diagnostic| diagnostic.position);
    Err(reader.diagnostics)
}

fn shared(service: Box<InferenceService>) -> Object {
    Object::InferenceService(service.into())
}

/// A problem, its position and its field.
type Found = (Position, String, Problem);

struct Reader<'text> {
    file: &'text str,
    diagnostics: Vec<Diagnostic>,
    manifests: Vec<Manifest>,
}

impl Reader<'_> {
    fn document(&mut self, node: &Node) {
        let items = node.field("items").map(|items| &items.content);
        match (kind::is_list(node), items) {
            (true, Some(Content::List(items))) => {
                items.iter().for_each(|item| self.document(item));
            }
            (true | false, _) => self.object(node),
        }
    }

    fn object(&mut self, node: &Node) {
        let service = Schemas::inference_service;
        let runtime = Schemas::serving_runtime;
        let read = match Kind::of(node) {
            Ok(Kind::InferenceService) => self.typed(node, &service()).map(shared),
            Ok(Kind::ServingRuntime) => self.typed(node, &runtime()).map(Object::ServingRuntime),
            Ok(Kind::ClusterServingRuntime) => self
                .typed(node, &runtime())
                .map(Object::ClusterServingRuntime),
            Ok(Kind::Other { kind, name }) => Some(Object::Other { kind, name }),
            Err(found) => {
                self.diagnostics([found]);
                None
            }
        };
        self.manifests.extend(read.map(|object| Manifest {
            object,
            spans: Spans::of(self.file, node),
        }));
    }

    /// The object, if it has no diagnostic.
    fn typed<T: DeserializeOwned>(&mut self, node: &Node, schema: &Schema) -> Option<Box<T>> {
        let read = against_schema::json(node, schema).and_then(|json| {
            // The schemas come from the types, so an error here is one that schemas cannot say.
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
        let diagnostics = found
            .into_iter()
            .map(|(position, field, problem)| Diagnostic {
                file: self.file.to_owned(),
                position,
                field,
                problem,
            });
        self.diagnostics.extend(diagnostics);
    }
}
