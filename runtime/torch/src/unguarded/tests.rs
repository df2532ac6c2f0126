use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_runtime::backend::{Device, UnguardedOperators, WarmUpFailures};

use super::*;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.pt"))
}

fn source(allowed: UnguardedOperators) -> ModelSource {
    ModelSource {
        name: "model".to_owned(),
        version: 1,
        path: path("unguarded"),
        inputs: Vec::new(),
        outputs: Vec::new(),
        max_batch_size: None,
        parameters: BTreeMap::new(),
        op_libraries: Vec::new(),
        devices: vec![Device::Cpu],
        example: None,
        samples: Vec::new(),
        buckets: Vec::new(),
        warm_up_failures: WarmUpFailures::Refuse,
        unguarded_operators: allowed,
        code: weir_runtime::backend::ModelCode::Allow,
    }
}

fn only(names: &[&str]) -> UnguardedOperators {
    UnguardedOperators::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_model_that_calls_an_operator_of_the_table_is_refused() {
    for Unguarded { name, trusts } in UNGUARDED {
        let method = format!("calls_{}", name.replace("::", "__"));
        let module = Module::load(&path("unguarded"), Device::Cpu, &method).unwrap();
        let refused = check(&source(only(&["aten::add"])), &module).unwrap_err().to_string();
        let said =
            format!("model 'model' calls operators whose operands are not checked: {name} trusts {}.", trusts.text());
        assert!(refused.starts_with(&said), "{refused}");
        assert!(refused.ends_with(&format!("--allow-unguarded-operators={name}")), "{refused}");
        assert!(check(&source(only(&[name])), &module).is_ok(), "{name}");
        assert!(check(&source(UnguardedOperators::All), &module).is_ok(), "{name}");
    }
}

#[test]
fn only_the_method_that_runs_counts() {
    let module = Module::load(&path("unguarded"), Device::Cpu, "forward").unwrap();
    assert!(check(&source(only(&[])), &module).is_ok());
}

#[test]
fn names_are_sorted_and_given_once() {
    assert!(UNGUARDED.is_sorted_by(|one, next| one.name < next.name));
}
