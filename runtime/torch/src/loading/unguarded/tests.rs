use std::path::{Path, PathBuf};

use weir_runtime::backend::{Device, UnguardedOperators};

use super::*;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.pt"))
}

fn source(allowed: UnguardedOperators) -> ModelSource {
    ModelSource { unguarded_operators: allowed, ..ModelSource::bare("model", path("unguarded")) }
}

fn only(names: &[&str]) -> UnguardedOperators {
    UnguardedOperators::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Loads the method that calls an operator.
fn calling(file: &str, name: &str) -> Result<Module, crate::libtorch::fault::Fault> {
    Module::load(&path(file), Device::Cpu, &format!("calls_{}", name.replace("::", "__")))
}

fn is_refused_unless_allowed(module: &Module, Unguarded { name, trusts }: Unguarded) {
    let refused = check(&source(only(&["aten::add"])), module).unwrap_err().to_string();
    let said =
        format!("model 'model' calls operators whose operands are not checked: {name} trusts {}.", trusts.text());
    assert!(refused.starts_with(&said), "{refused}");
    assert!(refused.ends_with(&format!("--allow-unguarded-operators={name}")), "{refused}");
    assert!(check(&source(only(&[name])), module).is_ok(), "{name}");
    assert!(check(&source(UnguardedOperators::All), module).is_ok(), "{name}");
}

#[test]
fn a_model_that_calls_an_operator_of_the_table_is_refused() {
    for entry in UNGUARDED.into_iter().filter(|entry| !entry.name.starts_with("prepacked::")) {
        is_refused_unless_allowed(&calling("unguarded", entry.name).unwrap(), entry);
    }
}

/// libtorch 2.15 no longer has these operators.
#[test]
fn a_model_that_calls_a_prepacked_operator_is_refused_by_the_table_or_cannot_be_loaded() {
    for entry in UNGUARDED.into_iter().filter(|entry| entry.name.starts_with("prepacked::")) {
        match calling("prepacked", entry.name) {
            Ok(module) => is_refused_unless_allowed(&module, entry),
            Err(fault) => assert!(fault.to_string().contains("Unknown builtin op: prepacked::"), "{fault}"),
        }
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
