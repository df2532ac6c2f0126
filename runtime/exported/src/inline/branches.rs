//! The branches of `torch.cond` as nodes that have a guard: each runs only if the condition has the branch's value.
//! Then each result is chosen from those of the branches.

use serde_json::{Value as Json, json};

use super::Refusal;
use super::names::{MISMATCH, Names, add_others, leaves, merge, of_operands, rename};
use crate::format::schema::{Graph, GuardJson, NamedArgument, NodeJson};
use crate::operators::CHOICE;

/// Operator that reads the truth value of a tensor with one element.
const TRUTH: &str = "torch.ops.aten.is_nonzero.default";

/// Adds the nodes of both branches to `nodes`, and their values to the graph.
pub(super) fn inline(
    graph: &mut Graph,
    branches: [Graph; 2],
    node: &NodeJson,
    place: &str,
    nodes: &mut Vec<NodeJson>,
) -> Result<(), Refusal> {
    let condition = condition(graph, &node.inputs[0].arg, place, nodes)?;
    let mut results = Vec::new();
    for (inner, expected) in branches.into_iter().zip([true, false]) {
        let mut names = of_operands(&inner, &node.inputs[3..])?;
        add_others(&mut names, &inner, &format!("{place}.{expected}"));
        if inner.outputs.len() != node.outputs.len() {
            return Err(MISMATCH.to_owned());
        }
        results.push(renamed_outputs(&inner, &names));
        let first = nodes.len();
        merge(graph, inner, &names, nodes);
        let guard = GuardJson { condition: condition.clone(), expected };
        nodes[first..].iter_mut().for_each(|node| node.guards.insert(0, guard.clone()));
    }
    for (index, output) in node.outputs.iter().enumerate().filter(|(_, output)| !leaves(output).is_empty()) {
        let operands = [("yes", results[0][index].clone()), ("no", results[1][index].clone())];
        nodes.push(choice(place, &condition, operands, output));
    }
    Ok(())
}

/// Returns the name of the condition as a truth value, which a node computes if it is a tensor.
fn condition(graph: &mut Graph, argument: &Json, place: &str, nodes: &mut Vec<NodeJson>) -> Result<String, Refusal> {
    let names = leaves(argument);
    let [name] = names.as_slice() else { return Err("has a condition that is not one value".to_owned()) };
    if argument.get("as_tensor").is_none() {
        return Ok(name.clone());
    }
    let truth = format!("{place}.condition");
    graph.sym_bool_values.insert(truth.clone(), Json::Null);
    nodes.push(NodeJson {
        target: TRUTH.to_owned(),
        inputs: vec![named("self", argument.clone())],
        outputs: vec![json!({"as_sym_bool": {"as_name": truth}})],
        name: Some(place.to_owned()),
        guards: Vec::new(),
    });
    Ok(truth)
}

fn renamed_outputs(inner: &Graph, names: &Names) -> Vec<Json> {
    let mut outputs = inner.outputs.clone();
    outputs.iter_mut().for_each(|output| rename(output, names));
    outputs
}

/// Returns the node that takes a result from the branch that has run.
fn choice(place: &str, condition: &str, operands: [(&str, Json); 2], output: &Json) -> NodeJson {
    let condition = named("condition", json!({"as_sym_bool": {"as_name": condition}}));
    let operands = operands.map(|(name, operand)| named(name, operand));
    NodeJson {
        target: format!("torch.ops.{}.default", CHOICE.replace("::", ".")),
        inputs: std::iter::once(condition).chain(operands).collect(),
        outputs: vec![output.clone()],
        name: Some(place.to_owned()),
        guards: Vec::new(),
    }
}

fn named(name: &str, arg: Json) -> NamedArgument {
    NamedArgument { name: name.to_owned(), arg }
}
