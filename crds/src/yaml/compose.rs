//! Builds trees from the parser's events.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag, options};

use super::{Content, Entry, Node, Scalar};
use crate::diagnostic::{Position, Problem};

/// Maximum number of values in one text, aliases expanded: nested aliases could expand to billions. A service has a few
/// hundred.
const MAX_NODES: usize = 1_000_000;

/// Maximum nesting depth, aliases expanded, so that recursion fits any stack. A pod's deepest field is at about level
/// 20.
const MAX_DEPTH: usize = 100;

/// A problem and its position.
pub(crate) type Located = (Position, Problem);

/// A document of a text.
pub(crate) struct Document {
    pub(crate) root: Node,
    pub(crate) syntax: Syntax,
}

/// Syntax of a document that could be parsed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Sound,
    /// The document has problems, such as a duplicate key, so its values must not be used.
    Faulty,
}

/// Parses the documents of a text, without empty ones. An error in one document does not hide errors in the next.
pub(crate) fn documents(text: &str) -> (Vec<Document>, Vec<Located>) {
    let options = options! { emit_comments: false, emit_unresolved_aliases: true };
    let mut composer = Composer {
        events: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        nodes: 0,
        depth: 0,
        problems: Vec::new(),
    };
    let mut documents = Vec::new();
    loop {
        let problems_before = composer.problems.len();
        match composer.next_document() {
            Ok(Some(root)) if root.is_null() => {}
            Ok(Some(root)) => {
                let syntax = if composer.problems.len() == problems_before { Syntax::Sound } else { Syntax::Faulty };
                documents.push(Document { root, syntax });
            }
            Ok(None) => break,
            Err(stop) => {
                composer.problems.push(stop);
                if !matches!(composer.events.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
        }
    }
    (documents, composer.problems)
}

struct Composer<'text> {
    events: Parser<'text, StrInput<'text>>,
    anchors: HashMap<usize, Content>,
    nodes: usize,
    /// Number of open lists and mappings.
    depth: usize,
    problems: Vec<Located>,
}

/// A mapping under construction, with an index of its keys, so that adding a key takes constant time even in a wide
/// mapping.
#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// Line of each key.
    lines: HashMap<String, usize>,
}

impl Mapping {
    /// Adds an entry. If the key exists already, returns it with the line of the first occurrence as the error.
    fn add(&mut self, entry: Entry) -> Result<(), (String, usize)> {
        if let Some(line) = self.lines.get(&entry.key) {
            return Err((entry.key, *line));
        }
        self.lines.insert(entry.key.clone(), entry.position.line);
        self.entries.push(entry);
        Ok(())
    }
}

impl<'text> Composer<'text> {
    fn next_document(&mut self) -> Result<Option<Node>, Located> {
        loop {
            match self.next()? {
                Some((Event::DocumentStart(..), _)) => break,
                Some(_) => {}
                None => return Ok(None),
            }
        }
        self.anchors.clear();
        self.depth = 0;
        let Some((event, span)) = self.next()? else {
            return Ok(None);
        };
        self.node(event, &span).map(Some)
    }

    fn next(&mut self) -> Result<Option<(Event<'text>, Span)>, Located> {
        let event = self.events.next().transpose();
        event.map_err(|error| (position(error.marker()), syntax(advised(error.info()))))
    }

    fn node(&mut self, event: Event<'text>, span: &Span) -> Result<Node, Located> {
        let position = position(&span.start);
        self.bound(1, 0, position)?;
        let anchor = event.anchor_id();
        self.depth += 1;
        let content = self.content(event, position)?;
        self.depth -= 1;
        if let Some(id) = anchor {
            self.anchors.insert(id, content.clone());
        }
        Ok(Node { position, content })
    }

    fn content(&mut self, event: Event<'text>, position: Position) -> Result<Content, Located> {
        match event {
            Event::Scalar(text, style, _, tag) => {
                let scalar = self.scalar(&text, style, tag.as_deref(), position);
                Ok(Content::Scalar(scalar))
            }
            Event::SequenceStart(_, _, tag) => {
                self.refuse(tag.as_deref(), "seq", position);
                self.list().map(Content::List)
            }
            Event::MappingStart(_, _, tag) => {
                self.refuse(tag.as_deref(), "map", position);
                self.map().map(Content::Map)
            }
            Event::Alias(id) => self.alias(id, position),
            Event::UnresolvedAlias(name) => Err((position, syntax(format!("no anchor `&{name}` above")))),
            // An empty document, or an event that a newer parser adds.
            _ => Ok(Content::Scalar(Scalar::plain(""))),
        }
    }

    fn list(&mut self) -> Result<Vec<Node>, Located> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::SequenceEnd) {
                break;
            }
            items.push(self.node(event, &span)?);
        }
        Ok(items)
    }

    fn map(&mut self) -> Result<Vec<Entry>, Located> {
        let mut mapping = Mapping::default();
        let mut merged = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.node(event, &span)?;
            let Some((event, span)) = self.next()? else {
                break;
            };
            let value = self.node(event, &span)?;
            match self.key(&key) {
                Some(key) if key == "<<" => merged.push(value),
                Some(name) => self.insert(&mut mapping, name, key.position, value),
                None => {}
            }
        }
        for node in merged {
            self.merge(&mut mapping, node);
        }
        Ok(mapping.entries)
    }

    /// Converts a key to text, the only type of keys in JSON: `8080:` is `"8080":`.
    fn key(&mut self, node: &Node) -> Option<String> {
        let key = match &node.content {
            Content::Scalar(scalar) => scalar.key(),
            Content::List(_) | Content::Map(_) => None,
        };
        if key.is_none() {
            let sentence = format!("a key must be a word, not {}", node.described());
            self.problems.push((node.position, syntax(sentence)));
        }
        key
    }

    fn insert(&mut self, mapping: &mut Mapping, key: String, position: Position, value: Node) {
        let entry = Entry { key, position, value };
        if let Err((key, first)) = mapping.add(entry) {
            self.problems.push((position, Problem::Duplicate { key, first }));
        }
    }

    /// Merges `<<: *anchor`: adds the fields of another mapping that this one lacks.
    fn merge(&mut self, mapping: &mut Mapping, node: Node) {
        match node.content {
            Content::Map(others) => {
                for other in others {
                    // The mapping's own field takes precedence.
                    let _ = mapping.add(other);
                }
            }
            Content::List(nodes) => {
                for node in nodes {
                    self.merge(mapping, node);
                }
            }
            Content::Scalar(scalar) => {
                let sentence = format!("`<<` takes a mapping, not {}", scalar.described());
                self.problems.push((node.position, syntax(sentence)));
            }
        }
    }

    /// Expands an alias to a copy of the anchored value, whose fields keep their positions.
    fn alias(&mut self, id: usize, position: Position) -> Result<Content, Located> {
        let Some(content) = self.anchors.get(&id).cloned() else {
            let sentence = "an alias must not be inside the value of its own anchor";
            return Err((position, syntax(sentence)));
        };
        let (nodes, height) = extent(&content);
        self.bound(nodes, height, position)?;
        Ok(content)
    }

    /// Refuses values that exceed the limits, before they are built.
    fn bound(&mut self, nodes: usize, height: usize, position: Position) -> Result<(), Located> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let sentence = format!("more than {MAX_NODES} values in one file");
            return Err((position, syntax(sentence)));
        }
        if self.depth + height > MAX_DEPTH {
            let sentence = format!("nested more than {MAX_DEPTH} levels deep");
            return Err((position, syntax(sentence)));
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, position: Position) -> Scalar {
        match (tag.map(Tag::core_suffix), style) {
            (None, ScalarStyle::Plain) => self.plain(text, position),
            (None, _) => Scalar::quoted(text),
            (Some(Some("int" | "float" | "bool" | "null")), _) => Scalar::plain(text),
            (Some(_), _) => {
                self.refuse(tag, "str", position);
                Scalar::quoted(text)
            }
        }
    }

    /// Reads an unquoted scalar. Infinity and NaN are refused, because JSON has neither.
    fn plain(&mut self, text: &str, position: Position) -> Scalar {
        let word = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
        if matches!(&*word, ".inf" | ".nan") {
            let sentence = format!("JSON has no number `{text}`");
            self.problems.push((position, syntax(sentence)));
        }
        Scalar::plain(text)
    }

    fn refuse(&mut self, tag: Option<&Tag>, but: &str, position: Position) {
        if let Some(tag) = tag
            && tag.core_suffix() != Some(but)
        {
            let sentence = format!("the tag `{}` is not supported", tag.original());
            self.problems.push((position, syntax(sentence)));
        }
    }
}

/// Returns the number and the nesting depth of the values below this one.
fn extent(content: &Content) -> (usize, usize) {
    let below: Vec<_> = match content {
        Content::Scalar(_) => return (0, 0),
        Content::List(items) => items.iter().map(|item| extent(&item.content)).collect(),
        Content::Map(entries) => entries.iter().map(|entry| extent(&entry.value.content)).collect(),
    };
    let height = below.iter().map(|(_, height)| *height).max();
    let nodes: usize = below.iter().map(|(nodes, _)| 1 + nodes).sum();
    (nodes, 1 + height.unwrap_or(0))
}

/// Adds advice to the parser's message where the message gives none.
fn advised(message: String) -> String {
    if message.contains("tabs disallowed") {
        format!("{message}: use spaces instead of tabs")
    } else if message.contains("recursion limit exceeded") {
        "nested too deeply".to_owned()
    } else {
        message
    }
}

fn syntax(sentence: impl Into<String>) -> Problem {
    Problem::Syntax(sentence.into())
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}
