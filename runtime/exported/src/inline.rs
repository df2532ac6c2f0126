//! Subgraphs whose nodes take the place of the node that calls them.
//!
//! Some only change how gradients are recorded, as of `torch.no_grad()` inside `forward`, and no gradients are recorded
//! here. The branches of `torch.cond` become nodes that run only if the condition is theirs.

mod branches;
mod names;

use serde::Deserialize;
use serde_json::Value as Json;

use self::names::{merge, renamed};
use crate::error::ExportedError;
use crate::format::schema::{Graph, NodeJson};

/// Deepest nesting of subgraphs, which bounds the stack.
const DEEPEST: usize = 16;

/// Operator of `torch.no_grad`, `torch.enable_grad` and `torch.set_grad_enabled`: a flag, the subgraph and its operands.
const GRAD: &str = "torch.ops.higher_order.wrap_with_set_grad_enabled";
/// Operator of `torch.autocast`: a device, a type, two flags, the subgraph and its operands.
const AUTOCAST: &str = "torch.ops.higher_order.wrap_with_autocast";
/// Operator of `torch.cond`: the condition, a subgraph for each of its values, and their operands.
const COND: &str = "torch.ops.higher_order.cond";

/// Reason for a refusal, which follows the operator and its position.
type Refusal = String;

/// A node with subgraphs that are to take its place.
enum Call {
    /// Position of the subgraph in the arguments.
    Wrapped(usize),
    Branches,
}

/// Puts the nodes of subgraphs in place of their calls, at any depth of nesting.
///
/// # Errors
/// [`ExportedError::Unsupported`] for a subgraph whose operands and results do not match its call.
pub(crate) fn inline(graph: &mut Graph) -> Result<(), ExportedError> {
    inline_nested(graph, DEEPEST)
}

fn inline_nested(graph: &mut Graph, depth: usize) -> Result<(), ExportedError> {
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (index, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        let Some(call) = Call::of(&node) else {
            nodes.push(node);
            continue;
        };
        let place = node.name.clone().unwrap_or_else(|| format!("node {index}"));
        let refused =
            |what: Refusal| ExportedError::Unsupported(format!("operator {} at '{place}' {what}", node.target));
        if depth == 0 {
            return Err(refused("is nested too deeply".to_owned()));
        }
        let subgraph = |at: usize| {
            let mut inner = parsed(&node, at).map_err(refused)?;
            inline_nested(&mut inner, depth - 1).map(|()| inner)
        };
        match call {
            Call::Wrapped(at) => {
                let inner = subgraph(at)?;
                let names = renamed(&inner, &node, at, &place).map_err(refused)?;
                merge(graph, inner, &names, &mut nodes);
            }
            Call::Branches => {
                let inner = [subgraph(1)?, subgraph(2)?];
                branches::inline(graph, inner, &node, &place, &mut nodes).map_err(refused)?;
            }
        }
    }
    graph.nodes = nodes;
    Ok(())
}

impl Call {
    /// Returns the kind of a call; `None` for a node that is to stay.
    fn of(node: &NodeJson) -> Option<Self> {
        let found = match node.target.as_str() {
            GRAD => Self::Wrapped(1),
            // Without autocast, which is off by default, the subgraph computes the same as outside.
            AUTOCAST if node.inputs.get(2)?.arg.get("as_bool") == Some(&Json::Bool(false)) => Self::Wrapped(4),
            COND => Self::Branches,
            _ => return None,
        };
        Some(found)
    }
}

/// Returns the subgraph at a position in a node's arguments.
fn parsed(node: &NodeJson, at: usize) -> Result<Graph, Refusal> {
    let inner = node.inputs.get(at).and_then(|input| input.arg.get("as_graph")).and_then(|it| it.get("graph"));
    let inner = inner.ok_or("has no subgraph")?;
    Graph::deserialize(inner).map_err(|error| format!("has another form: {error}"))
}

#[cfg(test)]
mod tests;
