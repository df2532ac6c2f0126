//! Reads manifests for people: every mistake, with its file, line, column and field.

mod check;
mod kind;

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::inference_service::InferenceService;
use crate::mistake::{Mistake, Place, Problem};
use crate::places::Places;
use crate::serving_runtime::{ClusterServingRuntime, ServingRuntime};
use crate::shape::{Shape, Shapes};
use crate::yaml::{self, Content, Node};
use kind::Kind;

/// An object and where its fields are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object.
    pub object: Object,
    /// Where its fields are written.
    pub places: Places,
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
/// `file` is what mistakes call the text. What a manifest says under `status` is left out.
///
/// # Errors
///
/// Every mistake of every document, in the order of the text.
pub fn read(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<Mistake>> {
    let mut reader = Reader {
        file,
        mistakes: Vec::new(),
        manifests: Vec::new(),
    };
    let (documents, problems) = yaml::documents(text);
    let syntax = |(place, problem)| (place, String::new(), problem);
    reader.mistakes(problems.into_iter().map(syntax));
    for document in &documents {
        reader.document(document);
    }
    if reader.mistakes.is_empty() {
        return Ok(reader.manifests);
    }
    reader.mistakes.sort_by_key(|mistake| mistake.place);
    Err(reader.mistakes)
}

fn shared(service: Box<InferenceService>) -> Object {
    Object::InferenceService(service.into())
}

/// A problem, its place and its field.
type Found = (Place, String, Problem);

struct Reader<'text> {
    file: &'text str,
    mistakes: Vec<Mistake>,
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
        let service = Shapes::inference_service;
        let runtime = Shapes::serving_runtime;
        let read = match Kind::of(node) {
            Ok(Kind::InferenceService) => self.typed(node, &service()).map(shared),
            Ok(Kind::ServingRuntime) => self.typed(node, &runtime()).map(Object::ServingRuntime),
            Ok(Kind::ClusterServingRuntime) => self
                .typed(node, &runtime())
                .map(Object::ClusterServingRuntime),
            Ok(Kind::Other { kind, name }) => Some(Object::Other { kind, name }),
            Err(found) => {
                self.mistakes([found]);
                None
            }
        };
        self.manifests.extend(read.map(|object| Manifest {
            object,
            places: Places::of(self.file, node),
        }));
    }

    /// The object, if it has no mistake.
    fn typed<T: DeserializeOwned>(&mut self, node: &Node, shape: &Shape) -> Option<Box<T>> {
        let read = check::json(node, shape).and_then(|json| {
            // The shapes come from the types, so an error here is one that shapes cannot say.
            serde_json::from_value(json).map_err(|error| {
                let problem = Problem::Syntax(error.to_string());
                vec![(node.place, String::new(), problem)]
            })
        });
        match read {
            Ok(object) => Some(Box::new(object)),
            Err(found) => {
                self.mistakes(found);
                None
            }
        }
    }

    fn mistakes(&mut self, found: impl IntoIterator<Item = Found>) {
        let mistakes = found.into_iter().map(|(place, field, problem)| Mistake {
            file: self.file.to_owned(),
            place,
            field,
            problem,
        });
        self.mistakes.extend(mistakes);
    }
}
