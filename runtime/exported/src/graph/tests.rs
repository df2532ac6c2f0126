//! Order of definitions and uses in small programs.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::Program;
use crate::error::ExportedError;
use crate::format::schema::ProgramJson;
use crate::plan::Processor;

fn tensor(name: &str) -> Json {
    json!({"as_tensor": {"name": name}})
}

/// Returns the node of an operator with one operand.
fn node(operator: &str, operand: &str, result: &str) -> Json {
    let inputs = [json!({"name": "self", "arg": tensor(operand)})];
    json!({"target": format!("torch.ops.aten.{operator}.default"), "inputs": inputs, "outputs": [tensor(result)]})
}

/// Reads a program of these nodes on the inputs, which returns `z`.
fn read(inputs: &[&str], nodes: &[Json]) -> Result<Program, ExportedError> {
    let meta = json!({"dtype": 7, "sizes": [], "strides": [], "storage_offset": {"as_int": 0}});
    let values: HashMap<&str, Json> = ["x", "y", "z"].into_iter().map(|name| (name, meta.clone())).collect();
    let inputs: Vec<Json> = inputs.iter().map(|name| json!({"user_input": {"arg": tensor(name)}})).collect();
    let signature = json!({"input_specs": inputs, "output_specs": [{"user_output": {"arg": tensor("z")}}]});
    let graph = json!({"nodes": nodes, "tensor_values": values, "sym_int_values": {}});
    let module = json!({"graph": graph, "signature": signature});
    let program = json!({"graph_module": module, "schema_version": {"major": 8, "minor": 0}});
    Program::new(ProgramJson::deserialize(program).unwrap(), &HashMap::new())
}

#[test]
fn a_value_has_one_definition() {
    assert!(read(&["x"], &[node("relu", "x", "z")]).is_ok());
    let twice = [
        read(&["x", "x"], &[node("relu", "x", "z")]),
        read(&["x"], &[node("relu", "x", "x"), node("relu", "x", "z")]),
        read(&["x"], &[node("relu", "x", "z"), node("exp", "x", "z")]),
    ];
    for found in twice {
        let text = found.unwrap_err().to_string();
        assert!(text.ends_with("' is defined twice"), "{text}");
    }
}

#[test]
fn outputs_have_different_names() {
    let meta = json!({"dtype": 7, "sizes": [], "strides": [], "storage_offset": {"as_int": 0}});
    let leaf = json!({"type": null});
    let dict =
        |keys: &str, children: &[Json]| json!({"type": "builtins.dict", "context": keys, "children_spec": children});
    let read = |key: &str| {
        let inner = dict("[\"b\"]", std::slice::from_ref(&leaf));
        let spec = json!([1, dict(&format!("[\"a\", \"{key}\"]"), &[inner, leaf.clone()])]).to_string();
        let outputs = ["y", "z"].map(|name| json!({"user_output": {"arg": tensor(name)}}));
        let signature = json!({"input_specs": [{"user_input": {"arg": tensor("x")}}], "output_specs": outputs});
        let nodes = [node("relu", "x", "y"), node("exp", "x", "z")];
        let values = json!({"x": meta, "y": meta, "z": meta});
        let graph = json!({"nodes": nodes, "tensor_values": values, "sym_int_values": {}});
        let in_spec = json!([1, {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}]).to_string();
        let call = json!({"in_spec": in_spec, "out_spec": spec, "forward_arg_names": ["x"]});
        let calls = json!([{"fqn": "", "signature": call}]);
        let module = json!({"graph": graph, "signature": signature, "module_call_graph": calls});
        let program = json!({"graph_module": module, "schema_version": {"major": 8, "minor": 0}});
        Program::new(ProgramJson::deserialize(program).unwrap(), &HashMap::new())
    };
    let paths: Vec<String> = read("c").unwrap().outputs.into_iter().map(|output| output.path).collect();
    assert_eq!(paths, ["a.b", "c"]);
    let text = read("a.b").unwrap_err().to_string();
    assert!(text.contains("two outputs are named 'a.b': rename a key that forward returns"), "{text}");
}

#[test]
fn unsigned_integers_are_element_types() {
    let types = [28, 34, 35].map(super::builder::element_type);
    assert_eq!(types, [Ok(27), Ok(28), Ok(29)]);
}

#[test]
fn a_part_of_vmap_is_refused_with_a_remedy() {
    let mut part = node("relu", "x", "z");
    part["target"] = json!("torch._functorch.predispatch.lazy_load_decompositions");
    let text = match read(&["x"], &[part]).and_then(|program| program.plan(Processor::Cpu)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains("part of torch.vmap: save the result of program.run_decompositions({})"), "{text}");
}

#[test]
fn a_value_is_computed_before_its_use() {
    let text = read(&["x"], &[node("relu", "y", "z"), node("relu", "z", "y")]).unwrap_err().to_string();
    assert!(text.contains("'y' is used before it is computed"), "{text}");
    let text = read(&["x"], &[node("relu", "x", "y")]).unwrap_err().to_string();
    assert!(text.contains("is not computed"), "{text}");
}

#[test]
fn an_operator_that_a_file_may_not_name_is_refused() {
    let refused = |name: &str| {
        let mut named = node("relu", "x", "z");
        named["target"] = json!(name);
        read(&["x"], &[named]).unwrap_err().to_string()
    };
    let text = refused("torch.ops.aten.from_file.default");
    assert!(text.contains("operator torch.ops.aten.from_file.default at node 0 reads or writes a file"), "{text}");
    for hidden in
        ["torch.ops.aten.from_file\0.default", "torch.ops.aten.from_file\0x.default", "torch.ops.aten::from_file.x.y"]
    {
        let text = refused(hidden);
        assert!(text.contains("other characters than letters"), "{text}");
    }
}

#[test]
fn a_text_that_may_be_a_path_is_refused() {
    let with_text = |argument: &str| {
        let mut named = node("relu", "x", "z");
        named["inputs"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": argument, "arg": {"as_string": "none"}, "kind": 1}));
        read(&["x"], &[named])
    };
    assert!(with_text("approximate").is_ok());
    let text = with_text("path").unwrap_err().to_string();
    assert!(text.contains("argument 'path'") && text.contains("may name a file"), "{text}");
}

#[test]
fn running_statistics_that_change_are_refused_also_in_a_view() {
    let planned = |name: &str, flag: Option<bool>| {
        let mut norm = node(name, "x", "z");
        let inputs = norm["inputs"].as_array_mut().unwrap();
        inputs.push(json!({"name": "running_mean", "arg": tensor("y")}));
        inputs.extend(flag.map(|flag| json!({"name": "training", "arg": {"as_bool": flag}})));
        read(&["x"], &[node("detach", "x", "y"), norm]).unwrap().plan(Processor::Cpu).is_ok()
    };
    assert!(planned("batch_norm", Some(false)) && planned("_native_batch_norm_legit_no_training", None));
    assert!(!planned("batch_norm", Some(true)) && !planned("batch_norm_update_stats", None));
}

#[test]
fn an_assertion_is_left_out_unless_its_result_is_used() {
    let calls = |nodes: &[Json]| read(&["x"], nodes).unwrap().plan(Processor::Cpu).unwrap().calls.len();
    let mut assertion = node("_assert_tensor_metadata", "x", "y");
    assert_eq!(calls(&[assertion.clone(), node("relu", "y", "z")]), 2);
    assertion["outputs"] = json!([]);
    assert_eq!(calls(&[assertion, node("relu", "x", "z")]), 1);
}

#[test]
fn guards_about_variable_arguments_name_their_parameter_first() {
    let symbol = |name: &str| json!({"as_expr": {"expr_str": name}});
    let meta =
        |name: &str| json!({"dtype": 7, "sizes": [symbol(name)], "strides": [], "storage_offset": {"as_int": 0}});
    let values = json!({"x": meta("s0"), "y": meta("s1"), "z": meta("s0")});
    let inputs = ["x", "y"].map(|name| json!({"user_input": {"arg": tensor(name)}}));
    let signature = json!({"input_specs": inputs, "output_specs": [{"user_output": {"arg": tensor("z")}}]});
    let graph = json!({"nodes": [node("relu", "x", "z")], "tensor_values": values, "sym_int_values": {}});
    let leaf = json!({"type": null});
    let tuple = |parts: &[Json]| json!({"type": "builtins.tuple", "context": "null", "children_spec": parts});
    let named = json!({"type": "builtins.dict", "context": "[\"y\"]", "children_spec": [leaf.clone()]});
    let spec = json!([1, tuple(&[tuple(std::slice::from_ref(&leaf)), named])]).to_string();
    let names = json!(["args_0", "y"]);
    let call = json!({"in_spec": spec, "out_spec": json!([1, leaf]).to_string(), "forward_arg_names": names});
    let calls = json!([{"fqn": "", "signature": call}]);
    let module = json!({"graph": graph, "signature": signature, "module_call_graph": calls});
    let read = |guard: &str| {
        let program =
            json!({"graph_module": module, "schema_version": {"major": 8, "minor": 0}, "guards_code": [guard]});
        Program::new(ProgramJson::deserialize(program).unwrap(), &HashMap::new())
    };
    let program = read("L['args'][0].size()[0] == L['kwargs']['y'].size()[0]").unwrap();
    assert_eq!(program.check_sizes(&[vec![3], vec![3]]), Ok(()));
    assert!(program.check_sizes(&[vec![3], vec![4]]).unwrap_err().contains("input 'args_0' has the sizes [3]"));
    assert!(read("L['args'][1].size()[0] == 3").is_err());
}
