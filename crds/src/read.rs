//! Reads manifests for people: every mistake, with its file, line, column and field.

mod check;
mod kind;

use serde::de::DeserializeOwned;

use crate::inference_service::InferenceService;
use crate::mistake::{Mistake, Problem};
use crate::places::Places;
use crate::serving_runtime::{ClusterServingRuntime, ServingRuntime};
use crate::shape::{Shape, Shapes};
use crate::yaml::{self, Content, Node};
use check::Check;
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
    InferenceService(Box<InferenceService>),
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
    for (place, problem) in problems {
        reader.mistakes.push(Mistake {
            file: file.to_owned(),
            place,
            field: String::new(),
            problem,
        });
    }
    for document in &documents {
        reader.document(document);
    }
    if reader.mistakes.is_empty() {
        return Ok(reader.manifests);
    }
    reader.mistakes.sort_by_key(|mistake| mistake.place);
    Err(reader.mistakes)
}

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
        if !matches!(node.content, Content::Map(_)) {
            let expected = "a mapping with apiVersion and kind";
            let found = node.described();
            return self.mistake(node, "", Problem::WrongType { expected, found });
        }
        for field in ["apiVersion", "kind"] {
            if node.field(field).and_then(Node::text).is_none() {
                return self.mistake(node, field, Problem::Missing);
            }
        }
        let read = match Kind::of(node) {
            Ok(Kind::InferenceService) => self
                .typed(node, &Shapes::inference_service())
                .map(Object::InferenceService),
            Ok(Kind::ServingRuntime) => self
                .typed(node, &Shapes::serving_runtime())
                .map(Object::ServingRuntime),
            Ok(Kind::ClusterServingRuntime) => self
                .typed(node, &Shapes::serving_runtime())
                .map(Object::ClusterServingRuntime),
            Ok(Kind::Other { kind, name }) => Some(Object::Other { kind, name }),
            Err(problem) => {
                return self.mistake(node.field("kind").unwrap_or(node), "kind", problem);
            }
        };
        self.manifests.extend(read.map(|object| Manifest {
            object,
            places: Places::of(self.file, node),
        }));
    }

    /// The object, if it has no mistake.
    fn typed<T: DeserializeOwned>(&mut self, node: &Node, shape: &Shape) -> Option<Box<T>> {
        let mut check = Check::new(Shapes::all());
        let mut value = check.value("", node, shape);
        let mut problems = check.problems;
        if let Some(metadata) = node.field("metadata")
            && metadata.field("name").is_none()
        {
            problems.push((metadata.place, "metadata.name".to_owned(), Problem::Missing));
        }
        if problems.is_empty() {
            if let Some(fields) = value.as_object_mut() {
                fields.remove("status");
            }
            match serde_json::from_value(value) {
                Ok(object) => return Some(Box::new(object)),
                // The shapes come from the types, so this is one that they cannot say.
                Err(error) => {
                    problems.push((
                        node.place,
                        String::new(),
                        Problem::Syntax(error.to_string()),
                    ));
                }
            }
        }
        self.mistakes
            .extend(problems.into_iter().map(|(place, field, problem)| Mistake {
                file: self.file.to_owned(),
                place,
                field,
                problem,
            }));
        None
    }

    fn mistake(&mut self, at: &Node, field: &str, problem: Problem) {
        self.mistakes.push(Mistake {
            file: self.file.to_owned(),
            place: at.place,
            field: field.to_owned(),
            problem,
        });
    }
}
