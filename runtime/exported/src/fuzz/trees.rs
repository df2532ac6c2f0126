//! Mutations of JSON that keep it JSON, so that they reach what reads the graph.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use weir_fuzz::{FuzzRng, pick};

/// Numbers at the limits of what the reader expects.
const NUMBERS: [i64; 10] = [0, 1, -1, 2, 7, 16, 1000, 1 << 40, i64::MAX, i64::MIN];

/// Trees, with a list of their parts to choose from.
pub(super) struct Corpus {
    trees: Vec<Json>,
    /// JSON pointers to all parts of each tree.
    places: Vec<Vec<String>>,
    /// Parts by the last key of their pointer, which stands for their kind.
    parts: BTreeMap<String, Vec<Json>>,
}

impl Corpus {
    pub(super) fn of(trees: Vec<Json>) -> Self {
        let mut parts: BTreeMap<String, Vec<Json>> = BTreeMap::new();
        let mut places = Vec::new();
        for tree in &trees {
            let mut own = Vec::new();
            list(tree, String::new(), &mut own);
            for place in &own {
                let part = tree.pointer(place).into_iter().cloned();
                parts.entry(kind(place).to_owned()).or_default().extend(part);
            }
            places.push(own);
        }
        Self { trees, places, parts }
    }

    /// Returns a tree with between one and `most` edits.
    pub(super) fn edited(&self, most: usize, rng: &mut FuzzRng) -> Json {
        let index = pick(rng, self.trees.len());
        let mut tree = self.trees[index].clone();
        for _ in 0..=pick(rng, most) {
            let place = &self.places[index][pick(rng, self.places[index].len())];
            // An earlier edit may have removed the place.
            if let Some(part) = tree.pointer_mut(place) {
                self.edit(part, kind(place), rng);
            }
        }
        tree
    }

    fn edit(&self, part: &mut Json, kind: &str, rng: &mut FuzzRng) {
        match pick(rng, 8) {
            0 => *part = json!(NUMBERS[pick(rng, NUMBERS.len())]),
            1 => *part = self.part(pick(rng, self.parts.len()), rng),
            2 => shorten(part, rng),
            3 => repeat(part, rng),
            _ => {
                let alike = &self.parts[kind];
                *part = alike[pick(rng, alike.len())].clone();
            }
        }
    }

    fn part(&self, kind: usize, rng: &mut FuzzRng) -> Json {
        let parts = self.parts.values().nth(kind).map_or(&[][..], Vec::as_slice);
        parts.get(pick(rng, parts.len())).cloned().unwrap_or_default()
    }
}

/// Returns the last key of a pointer that is not a position.
fn kind(place: &str) -> &str {
    place.rsplit('/').find(|key| key.parse::<usize>().is_err()).unwrap_or_default()
}

/// Lists the pointers to all parts of a tree but the tree itself.
fn list(tree: &Json, place: String, found: &mut Vec<String>) {
    let children: Vec<(String, &Json)> = match tree {
        Json::Object(fields) => fields.iter().map(|(key, child)| (escaped(key), child)).collect(),
        Json::Array(items) => items.iter().enumerate().map(|(at, child)| (at.to_string(), child)).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    };
    for (key, child) in children {
        list(child, format!("{place}/{key}"), found);
    }
    if !place.is_empty() {
        found.push(place);
    }
}

/// Returns a key as JSON pointers have it.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Removes one of the children.
fn shorten(part: &mut Json, rng: &mut FuzzRng) {
    match part {
        Json::Object(fields) => {
            let key = fields.keys().nth(pick(rng, fields.len())).cloned();
            key.into_iter().for_each(|key| drop(fields.remove(&key)));
        }
        Json::Array(items) if !items.is_empty() => drop(items.remove(pick(rng, items.len()))),
        _ => *part = Json::Null,
    }
}

/// Adds a child of a list once more at another position.
fn repeat(part: &mut Json, rng: &mut FuzzRng) {
    if let Json::Array(items) = part
        && !items.is_empty()
    {
        let item = items[pick(rng, items.len())].clone();
        items.insert(pick(rng, items.len() + 1), item);
    }
}
