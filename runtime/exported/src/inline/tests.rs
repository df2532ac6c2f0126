use std::collections::HashMap;

use serde_json::json;

use super::names::leaves;
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

fn cond(name: &str, condition: Json, [yes, no]: [Json; 2], operands: &[&str], result: &str) -> Json {
    let [yes, no] = [yes, no].map(|graph| json!({"as_graph": {"name": "branch", "graph": graph}}));
    let operands: Vec<Json> = operands.iter().map(|name| json!({"name": name})).collect();
    node(COND, name, &[condition, yes, no, json!({"as_tensors": operands})], result)
}

fn inlined(json: Json) -> Result<Vec<String>, ExportedError> {
    let mut graph = Graph::deserialize(json).unwrap();
    inline(&mut graph)?;
    let text = |node: &NodeJson| {
        let operands: Vec<String> = node.inputs.iter().flat_map(|input| leaves(&input.arg)).collect();
        let results: Vec<String> = node.outputs.iter().flat_map(leaves).collect();
        let guards: String =
            node.guards.iter().map(|guard| format!("{}={} ", guard.condition, guard.expected)).collect();
        let target = node.target.trim_start_matches("torch.ops.");
        format!("{guards}{target} {} -> {}", operands.join(" "), results.join(" "))
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
fn nodes_of_branches_run_by_the_conditions_around_them() {
    let calls = |target: &str| graph(&["a"], vec![node(target, target, &[tensor("a")], "b")], "b", &["a", "b"]);
    let size = json!({"as_sym_bool": {"as_name": "n"}});
    let inner = vec![cond("deep", size, [calls("exp"), calls("log")], &["a"], "b")];
    let mut inner = graph(&["a"], inner, "b", &["a", "b"]);
    inner["sym_bool_values"] = json!({"n": true});
    let itself = graph(&["a"], Vec::new(), "a", &["a"]);
    let outer = vec![cond("cond", tensor("p"), [inner, itself], &["x"], "z")];
    let nodes = inlined(graph(&["p", "x"], outer, "z", &["p", "x", "z"])).unwrap();
    let expected = [
        "aten.is_nonzero.default p -> cond.condition",
        "cond.condition=true cond.true.n=true exp x -> cond.true.deep.true.b",
        "cond.condition=true cond.true.n=false log x -> cond.true.deep.false.b",
        "cond.condition=true weir.choose.default cond.true.n cond.true.deep.true.b cond.true.deep.false.b -> cond.true.b",
        "weir.choose.default cond.condition cond.true.b x -> z",
    ];
    assert_eq!(nodes, expected);
}

#[test]
fn branches_that_do_not_match_are_refused_by_their_place() {
    let of = |inputs: &[&str]| graph(inputs, Vec::new(), "a", inputs);
    let refused = |condition: Json, branches: [Json; 2]| {
        let outer = vec![cond("it", condition, branches, &["x"], "z")];
        inlined(graph(&["p", "x"], outer, "z", &["p", "x", "z"])).unwrap_err().to_string()
    };
    let error = refused(tensor("p"), [of(&["a"]), of(&["a", "b"])]);
    assert!(error.contains("higher_order.cond at 'it' does not match its subgraph"), "{error}");
    let error = refused(json!({"as_bool": true}), [of(&["a"]), of(&["a"])]);
    assert!(error.contains("has a condition that is not one value"), "{error}");
    let mut empty = of(&["a"]);
    empty["outputs"] = json!([]);
    let error = refused(tensor("p"), [of(&["a"]), empty]);
    assert!(error.contains("does not match"), "{error}");
}

#[test]
fn nesting_is_bounded() {
    let mut inner = graph(&["a"], vec![node("relu", "relu", &[tensor("a")], "b")], "b", &["a", "b"]);
    for _ in 0..=DEEPEST {
        inner = graph(&["a"], vec![without_gradients("wrap", inner, "a", "b")], "b", &["a", "b"]);
    }
    assert!(inlined(inner).unwrap_err().to_string().contains("nested too deeply"));
}
