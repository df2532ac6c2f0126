//! Subgraphs that only change how gradients are recorded, as of `torch.no_grad()` inside `forward`: their nodes take the
//! place of the node that calls them, because no gradients are recorded here.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::ExportedError;
use crate::schema::{Graph, NamedArgument, NodeJson};

/// Deepest nesting of subgraphs, which bounds the stack.
const DEEPEST: usize = 16;

/// Operator of `torch.no_grad`, `torch.enable_grad` and `torch.set_grad_enabled`: a flag, the subgraph and its operands.
const GRAD: &str = "torch.ops.higher_order.wrap_with_set_grad_enabled";
/// Operator of `torch.autocast`: a device, a type, two flags, the subgraph and its operands.
const AUTOCAST: &str = "torch.ops.higher_order.wrap_with_autocast";

/// Puts the nodes of such subgraphs in place of their calls, also of those inside of subgraphs.
///
/// # Errors
/// [`ExportedError::Unsupported`] for a subgraph whose operands and results do not match its call.
pub(crate) fn inline(graph: &mut Graph) -> Result<(), ExportedError> {
    inline_nested(graph, DEEPEST)
}

fn inline_nested(graph: &mut Graph, depth: usize) -> Result<(), ExportedError> {
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (index, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        let Some(at) = subgraph_at(&node) else {
            nodes.push(node);
            continue;
        };
        let place = node.name.clone().unwrap_or_else(|| format!("node {index}"));
        let refused = |what: &str| ExportedError::Unsupported(format!("operator {} at '{place}' {what}", node.target));
        if depth == 0 {
            return Err(refused("is nested too deeply"));
        }
        let inner = node.inputs[at].arg.get("as_graph").and_then(|it| it.get("graph"));
        let inner = inner.ok_or_else(|| refused("has no subgraph"))?;
        let mut inner = Graph::deserialize(inner).map_err(|error| refused(&format!("has another form: {error}")))?;
        inline_nested(&mut inner, depth - 1)?;
        let names = renamed(&inner, &node, at, &place).map_err(refused)?;
        merge(graph, inner, &names, &mut nodes);
    }
    graph.nodes = nodes;
    Ok(())
}

/// Returns the position of the subgraph in a node's arguments; `None` for a node that is to stay.
fn subgraph_at(node: &NodeJson) -> Option<usize> {
    let at = match node.target.as_str() {
        GRAD => 1,
        // Without autocast, which is off by default, the subgraph computes the same as outside.
        AUTOCAST if node.inputs.get(2)?.arg.get("as_bool") == Some(&Json::Bool(false)) => 4,
        _ => return None,
    };
    (node.inputs.len() > at).then_some(at)
}

/// Returns the new name of each value in a subgraph. Operands and results get the names that they have outside, and
/// every other value gets a unique one.
fn renamed(inner: &Graph, node: &NodeJson, at: usize, place: &str) -> Result<HashMap<String, String>, &'static str> {
    let mismatch = "does not match its subgraph";
    let operands = &node.inputs[at + 1..];
    if operands.len() != inner.inputs.len() {
        return Err(mismatch);
    }
    let mut names = HashMap::new();
    for (own, operand) in inner.inputs.iter().zip(operands) {
        match (leaves(own).as_slice(), leaves(&operand.arg).as_slice()) {
            ([own], [outside]) => drop(names.insert(own.clone(), outside.clone())),
            ([], []) => {}
            _ => return Err("has an operand that is neither a tensor nor a symbolic number"),
        }
    }
    let operands: HashSet<String> = names.keys().cloned().collect();
    let results: Vec<String> = inner.outputs.iter().flat_map(leaves).collect();
    let outside: Vec<String> = node.outputs.iter().flat_map(leaves).collect();
    if results.len() != outside.len() {
        return Err(mismatch);
    }
    for (own, outside) in results.into_iter().zip(outside) {
        if operands.contains(&own) || names.insert(own, outside).is_some() {
            return Err("returns an operand or the same value twice");
        }
    }
    let values = inner.tensor_values.keys().chain(inner.sym_int_values.keys());
    for name in values.chain(inner.sym_bool_values.keys()).chain(inner.sym_float_values.keys()) {
        names.entry(name.clone()).or_insert_with(|| format!("{place}.{name}"));
    }
    Ok(names)
}

/// Returns the names of the values in an argument.
fn leaves(argument: &Json) -> Vec<String> {
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
fn merge(graph: &mut Graph, inner: Graph, names: &HashMap<String, String>, nodes: &mut Vec<NodeJson>) {
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
        node
    }));
}

fn rename(argument: &mut Json, names: &HashMap<String, String>) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tensor(name: &str) -> Json {
        json!({"as_tensor": {"name": name}})
    }

    fn node(target: &str, name: &str, operands: &[Json], result: &str) -> Json {
        let inputs: Vec<Json> = operands.iter().map(|arg| json!({"name": "", "arg": arg})).collect();
        json!({"target": target, "name": name, "inputs": inputs, "outputs": [tensor(result)]})
    }

    fn graph(inputs: &[&str], nodes: Vec<Json>, output: &str, values: &[&str]) -> Json {
        let meta = json!({"dtype": 7, "sizes": [], "strides": [], "storage_offset": {"as_int": 0}});
        let values: HashMap<&str, Json> = values.iter().map(|name| (*name, meta.clone())).collect();
        let inputs: Vec<Json> = inputs.iter().map(|name| tensor(name)).collect();
        json!({"inputs": inputs, "outputs": [tensor(output)], "nodes": nodes, "tensor_values": values,
               "sym_int_values": {}})
    }

    fn without_gradients(name: &str, inner: Json, operand: &str, result: &str) -> Json {
        let subgraph = json!({"as_graph": {"name": "submod", "graph": inner}});
        node(GRAD, name, &[json!({"as_bool": false}), subgraph, tensor(operand)], result)
    }

    fn inlined(json: Json) -> Result<Vec<String>, ExportedError> {
        let mut graph = Graph::deserialize(json).unwrap();
        inline(&mut graph)?;
        let text = |node: &NodeJson| {
            let operands: Vec<String> = node.inputs.iter().flat_map(|input| leaves(&input.arg)).collect();
            let results: Vec<String> = node.outputs.iter().flat_map(leaves).collect();
            format!("{} {} -> {}", node.target, operands.join(" "), results.join(" "))
        };
        Ok(graph.nodes.iter().map(text).collect())
    }

    #[test]
    fn nodes_of_a_subgraph_are_called_outside_with_names_of_their_own() {
        let innermost = graph(&["u"], vec![node("exp", "exp", &[tensor("u")], "y")], "y", &["u", "y"]);
        let inner = vec![
            node("relu", "relu", &[tensor("a")], "b"),
            without_gradients("deep", innermost, "b", "c"),
            node("neg", "neg", &[tensor("c")], "d"),
        ];
        let inner = graph(&["a"], inner, "d", &["a", "b", "c", "d"]);
        // The name `b` is taken outside.
        let outer = vec![node("abs", "abs", &[tensor("x")], "b"), without_gradients("wrap", inner, "b", "z")];
        let nodes = inlined(graph(&["x"], outer, "z", &["x", "b", "z"])).unwrap();
        assert_eq!(nodes, ["abs x -> b", "relu b -> wrap.b", "exp wrap.b -> wrap.c", "neg wrap.c -> z"]);
    }

    #[test]
    fn subgraphs_that_do_not_match_are_refused_by_their_place() {
        let inner = graph(&["a", "b"], vec![node("relu", "relu", &[tensor("a")], "c")], "c", &["a", "b", "c"]);
        let outer = vec![without_gradients("wrap", inner, "x", "z")];
        let error = inlined(graph(&["x"], outer, "z", &["x", "z"])).unwrap_err().to_string();
        assert!(error.contains("at 'wrap' does not match its subgraph"), "{error}");
        let inner = graph(&["a"], Vec::new(), "a", &["a"]);
        let outer = vec![without_gradients("wrap", inner, "x", "z")];
        let error = inlined(graph(&["x"], outer, "z", &["x", "z"])).unwrap_err().to_string();
        assert!(error.contains("returns an operand"), "{error}");
    }

    #[test]
    fn nesting_is_bounded() {
        let mut inner = graph(&["a"], vec![node("relu", "relu", &[tensor("a")], "b")], "b", &["a", "b"]);
        for _ in 0..=DEEPEST {
            inner = graph(&["a"], vec![without_gradients("wrap", inner, "a", "b")], "b", &["a", "b"]);
        }
        assert!(inlined(inner).unwrap_err().to_string().contains("nested too deeply"));
    }
}
