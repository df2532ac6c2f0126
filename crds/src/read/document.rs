//! Reads a YAML document that is no Kubernetes object, with the same diagnostics.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;

use super::against_schema;
use crate::diagnostic::{Diagnostic, Position, Problem};
use crate::schema::Schema;
use crate::spans::Spans;
use crate::yaml::{self, Document};

/// First position of a text.
const START: Position = Position { line: 1, column: 1 };

/// The value of a YAML document, and its text.
#[derive(Debug)]
pub struct ReadDocument<T> {
    /// The value as written.
    pub value: T,
    file: String,
    text: String,
}

impl<T> ReadDocument<T> {
    /// Creates a document from the value that was read from a text. `file` names the text in diagnostics.
    #[must_use]
    pub fn new(file: &str, text: String, value: T) -> Self {
        Self { value, file: file.to_owned(), text }
    }

    /// Returns diagnostics for fields that are valid YAML but wrong by the rules of the file, each with its sentence.
    #[must_use]
    pub fn diagnostics(&self, found: impl IntoIterator<Item = (String, String)>) -> Vec<Diagnostic> {
        let mut found = found.into_iter().peekable();
        if found.peek().is_none() {
            return Vec::new();
        }
        // The text is parsed once more, because files without errors do not need the positions, which take more memory
        // than the value.
        let root = yaml::documents(&self.text).0.pop().map(|document| document.root);
        let spans = root.as_ref().map(|root| Spans::of(&self.file, root)).unwrap_or_default();
        let start = root.map_or(START, |root| root.position);
        let diagnostic = |(field, sentence): (String, String)| Diagnostic {
            file: self.file.clone(),
            position: spans.of_field(&field).unwrap_or(start),
            field,
            problem: Problem::Syntax(sentence),
        };
        found.map(diagnostic).collect()
    }
}

/// Reads a text with one YAML document. `file` names the text in diagnostics. Unknown fields are errors.
///
/// # Errors
///
/// Every error of the document, in the order of the text, when there is one. An empty text is an error too: it is more
/// likely the beginning of a file that is being written.
pub fn read_document<T: DeserializeOwned + JsonSchema>(
    file: &str,
    text: impl Into<String>,
) -> Result<ReadDocument<T>, Vec<Diagnostic>> {
    let text = text.into();
    let value = value(file, &text)?;
    Ok(ReadDocument::new(file, text, value))
}

fn value<T: DeserializeOwned + JsonSchema>(file: &str, text: &str) -> Result<T, Vec<Diagnostic>> {
    let (mut documents, problems) = yaml::documents(text);
    let diagnostic = |(position, field, problem)| Diagnostic { file: file.to_owned(), position, field, problem };
    let at_start = |sentence: &str| vec![diagnostic((START, String::new(), Problem::Syntax(sentence.to_owned())))];
    if !problems.is_empty() {
        let found = problems.into_iter().map(|(position, problem)| (position, String::new(), problem));
        return Err(found.map(diagnostic).collect());
    }
    let root = match (documents.pop(), documents.is_empty()) {
        (Some(Document { root, .. }), true) => root,
        (Some(_), false) => return Err(at_start("several documents, where one is expected")),
        (None, _) => return Err(at_start("the file is empty")),
    };
    let (json, mut found) = against_schema::json(&root, &schema::<T>());
    if found.is_empty() {
        // The schema is derived from the type, so this error is one that a schema cannot express.
        match serde_json::from_value(json) {
            Ok(value) => return Ok(value),
            Err(error) => found.push((root.position, String::new(), Problem::Syntax(error.to_string()))),
        }
    }
    let mut diagnostics: Vec<_> = found.into_iter().map(diagnostic).collect();
    diagnostics.sort_by_key(|diagnostic| diagnostic.position);
    Err(diagnostics)
}

fn schema<T: JsonSchema>() -> Schema {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    Schema::of(settings.into_generator().root_schema_for::<T>().as_value())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Shelf {
        books: Vec<Book>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Book {
        title: String,
        pages: Option<u32>,
    }

    #[test]
    fn every_error_has_its_line() {
        let text = "books:\n- title: a\n  pages: many\n- titel: b\nshelves: 1\n";
        let errors = read_document::<Shelf>("shelf.yaml", text).unwrap_err();
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let expected = [
            "shelf.yaml:3:10: books[0].pages: expected an integer, found the text `many`",
            "shelf.yaml:4:3: books[1].titel: unknown field; did you mean `title`?",
            "shelf.yaml:5:1: shelves: unknown field",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_document_is_read_and_places_further_errors() {
        let read = read_document::<Shelf>("s", "# one\nbooks:\n- title: a\n").unwrap();
        assert_eq!(read.value.books, [Book { title: "a".to_owned(), pages: None }]);
        let found = read.diagnostics([("books[0].title".to_owned(), "it is short".to_owned())]);
        assert_eq!(found[0].to_string(), "s:3:3: books[0].title: it is short");
    }

    #[test]
    fn empty_and_several_documents_are_errors() {
        for (text, part) in [("", "empty"), ("# nothing\n", "empty"), ("books: []\n---\nbooks: []\n", "several")] {
            let errors = read_document::<Shelf>("s", text).unwrap_err();
            assert!(errors[0].to_string().contains(part), "{errors:?}");
        }
    }
}
