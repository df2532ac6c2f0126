//! The names of a subgraph's values outside of it.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::Refusal;
use crate::format::schema::{Graph, NamedArgument, NodeJson};

/// New names by the names in the subgraph.
pub(super) type Names = HashMap<String, String>;

/// Returns the new name of each value in a subgraph. Operands and results get the names that they have outside, and
/// every other value gets a unique one.
pub(super) fn renamed(inner: &Graph, node: &NodeJson, at: usize, place: &str) -> Result<Names, Refusal> {
    let mut names = of_operands(inner, &node.inputs[at + 1..])?;
    let operands: HashSet<String> = names.keys().cloned().collect();
    let results: Vec<String> = inner.outputs.iter().flat_map(leaves).collect();
    let outside: Vec<String> = node.outputs.iter().flat_map(leaves).collect();
    if results.len() != outside.len() {
        return Err(MISMATCH.to_owned());
    }
    for (own, outside) in results.into_iter().zip(outside) {
        if operands.contains(&own) || names.insert(own, outside).is_some() {
            return Err("returns an operand or the same value twice".to_owned());
        }
    }
    add_others(&mut names, inner, place);
    Ok(names)
}

pub(super) const MISMATCH: &str = "does not match its subgraph";

/// Returns the names that the operands of a subgraph have outside.
pub(super) fn of_operands(inner: &Graph, operands: &[NamedArgument]) -> Result<Names, Refusal> {
    let operands: Vec<String> = operands.iter().flat_map(|operand| leaves(&operand.arg)).collect();
    let own: Vec<Vec<String>> = inner.inputs.iter().map(leaves).collect();
    if own.iter().any(|names| names.len() > 1) {
        return Err("has an operand that is neither a tensor nor a symbolic number".to_owned());
    }
    // An operand without a name is a constant, which the subgraph does not take by name either.
    let own: Vec<String> = own.into_iter().flatten().collect();
    if operands.len() != own.len() {
        return Err(MISMATCH.to_owned());
    }
    Ok(own.into_iter().zip(operands).collect())
}

/// Adds a unique name for each value of a subgraph that has none yet.
pub(super) fn add_others(names: &mut Names, inner: &Graph, place: &str) {
    let values = inner.tensor_values.keys().chain(inner.sym_int_values.keys());
    for name in values.chain(inner.sym_bool_values.keys()).chain(inner.sym_float_values.keys()) {
        names.entry(name.clone()).or_insert_with(|| format!("{place}.{name}"));
    }
}

/// Returns the names of the values in an argument.
pub(super) fn leaves(argument: &Json) -> Vec<String> {
    match argument {
        Json::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value) {
                ("name" | "as_name", Json::String(name)) => vec![name.clone()],
                (_, value) => leaves(value),
            })
            .collect(),
        Json::Array(items) => items.iter().flat_map(leaves).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    }
}

/// Adds the nodes and values of a subgraph under their new names.
pub(super) fn merge(graph: &mut Graph, inner: Graph, names: &Names, nodes: &mut Vec<NodeJson>) {
    let new = |name: String| names.get(&name).cloned().unwrap_or(name);
    for (name, meta) in inner.tensor_values {
        graph.tensor_values.entry(new(name)).or_insert(meta);
    }
    for (name, size) in inner.sym_int_values {
        graph.sym_int_values.entry(new(name)).or_insert(size);
    }
    for (name, value) in inner.sym_bool_values {
        graph.sym_bool_values.entry(new(name)).or_insert(value);
    }
    for (name, value) in inner.sym_float_values {
        graph.sym_float_values.entry(new(name)).or_insert(value);
    }
    nodes.extend(inner.nodes.into_iter().map(|mut node| {
        node.inputs.iter_mut().for_each(|NamedArgument { arg, .. }| rename(arg, names));
        node.outputs.iter_mut().for_each(|output| rename(output, names));
        node.guards.iter_mut().for_each(|guard| guard.condition = new(std::mem::take(&mut guard.condition)));
        node
    }));
}

pub(super) fn rename(argument: &mut Json, names: &Names) {
    match argument {
        Json::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), value) {
                    ("name" | "as_name", Json::String(name)) => {
                        if let Some(new) = names.get(name) {
                            name.clone_from(new);
                        }
                    }
                    (_, value) => rename(value, names),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
