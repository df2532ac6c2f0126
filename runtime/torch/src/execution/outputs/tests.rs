use proptest::prelude::*;
use weir_protocol::DataType;

use super::*;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn configs(names: &[&str]) -> Vec<TensorConfig> {
    let config = |name: &&str| TensorConfig::new(*name, DataType::Fp32, vec![-1, 4]);
    names.iter().map(config).collect()
}

fn bound(paths: &[&str], names: &[&str]) -> Result<Vec<usize>, String> {
    let returned = Returned::Fixed(strings(paths));
    match bind("m", &returned, &configs(names), ExtraOutputs::Dropped) {
        Ok(OutputBinding::Fixed(indices)) => Ok(indices),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn run_outputs(paths: &[&str]) -> Vec<RunOutput> {
    let output = |path: &&str| RunOutput {
        datatype: Some(DataType::Fp32),
        sizes: vec![1],
        data: bytes::Bytes::new(),
        path: Some((*path).to_owned()),
    };
    paths.iter().map(output).collect()
}

#[test]
fn outputs_of_a_tuple_go_by_index_or_order() {
    let two = ["#0", "#1"];
    assert_eq!(bound(&two, &["O__1", "O__0"]), Ok(vec![1, 0]));
    assert_eq!(bound(&two, &["sum", "O__0"]), Ok(vec![0, 1]));
    assert_eq!(bound(&two, &["difference"]), Ok(vec![0]));
    let error = bound(&two, &["O__0", "O__2"]).unwrap_err();
    assert!(error.starts_with("The output O__2 in the model"), "{error}");
    let error = bound(&two, &["a", "b", "c"]).unwrap_err();
    assert!(error.ends_with("expects 3 outputs, model provides 2"), "{error}");
}

#[test]
fn fields_go_by_name_and_all_of_them_or_none() {
    let fields = ["mean", "std"];
    assert_eq!(bound(&fields, &["std", "mean"]), Ok(vec![1, 0]));
    assert_eq!(bound(&fields, &["a", "b"]), Ok(vec![0, 1]));
    assert_eq!(bound(&fields, &["O__1"]), Ok(vec![1]));
    let error = bound(&fields, &["std", "O__0"]).unwrap_err();
    assert!(error.contains("no output 'O__0'"), "{error}");
    assert!(error.ends_with("its outputs are mean, std"), "{error}");
}

#[test]
fn elements_of_nested_tuples_have_dotted_names() {
    let nested = ["#0", "#1.#0", "#1.#1"];
    assert_eq!(names_of(&strings(&nested)), ["OUTPUT__0", "OUTPUT__1.0", "OUTPUT__1.1"]);
    assert_eq!(bound(&nested, &["OUTPUT__1.1", "1.0"]), Ok(vec![2, 1]));
    assert_eq!(bound(&nested, &["out", "h", "c"]), Ok(vec![0, 1, 2]));
    let error = bound(&nested, &["OUTPUT__0", "OUTPUT__1"]).unwrap_err();
    assert!(error.contains("OUTPUT__1.0, OUTPUT__1.1"), "{error}");
}

#[test]
fn keys_are_short_unless_two_are_the_same() {
    let one_image = strings(&["#1.#0.boxes", "#1.#0.labels"]);
    assert_eq!(names_of(&one_image), ["boxes", "labels"]);
    let two_images = strings(&["#1.#0.boxes", "#1.#1.boxes"]);
    assert_eq!(names_of(&two_images), ["OUTPUT__1.0.boxes", "OUTPUT__1.1.boxes"]);
    assert_eq!(find(&two_images, "boxes"), None);
    for name in ["1.1.boxes", "OUTPUT__1.1.boxes"] {
        assert_eq!(find(&two_images, name), Some(1));
    }
    let pyramid = strings(&["0", "1", "pool"]);
    assert_eq!(names_of(&pyramid), ["0", "1", "pool"]);
    let past = strings(&["logits", "past.#0.#1"]);
    assert_eq!(names_of(&past), ["logits", "past.0.1"]);
}

#[test]
fn a_key_that_is_missing_or_new_fails_the_request() {
    let seen = run_outputs(&["out", "aux"]);
    let choose = |extra, names: &[&str], seen: &[RunOutput]| {
        let chosen = OutputBinding::Keyed(extra).choose(&configs(names), seen);
        chosen.map(|chosen| chosen.len()).map_err(|error| error.to_string())
    };
    assert_eq!(choose(ExtraOutputs::Dropped, &["aux"], &seen), Ok(1));
    let error = choose(ExtraOutputs::Unexpected, &["aux"], &seen).unwrap_err();
    assert!(error.starts_with("the model returned 'out', which"), "{error}");
    let error = choose(ExtraOutputs::Dropped, &["aux", "extra"], &seen).unwrap_err();
    assert!(error.contains("no output 'extra'"), "{error}");
    assert!(error.ends_with("only out, aux"), "{error}");
    let error = choose(ExtraOutputs::Dropped, &["out"], &[]).unwrap_err();
    assert!(error.ends_with("only nothing"), "{error}");
}

#[test]
fn a_list_may_be_shorter_but_not_longer_than_was_learned() {
    let list = run_outputs(&["", "", ""]);
    let outputs = configs(&["OUTPUT__0", "OUTPUT__1"]);
    let binding = |extra| bind("m", &Returned::List, &outputs, extra).unwrap();
    let chosen = binding(ExtraOutputs::Dropped).choose(&outputs, &list[..1]).unwrap();
    assert!(chosen[0].is_some() && chosen[1].is_none());
    assert_eq!(empty(&outputs[1], None).sizes, [0, 4]);
    assert!(binding(ExtraOutputs::Dropped).choose(&outputs, &list).is_ok());
    let error = binding(ExtraOutputs::Unexpected).choose(&outputs, &list).unwrap_err().to_string();
    assert!(error.contains("3 tensors"), "{error}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let returned = Returned::Unservable("it returns None".to_owned());
    let error = bind("m", &returned, &[], ExtraOutputs::Dropped).unwrap_err();
    assert_eq!(error.to_string(), "unable to load model 'm': it returns None");
}

/// Generates paths as the shim makes them.
fn some_paths() -> impl Strategy<Value = Vec<String>> {
    let step = prop_oneof!["[a-z]{1,3}", "#[0-3]", "[0-9]"];
    let path = proptest::collection::vec(step, 1..4).prop_map(|steps| steps.join("."));
    let paths = proptest::collection::vec(path, 1..6);
    paths.prop_filter("two outputs of one name", |paths| {
        let shown: std::collections::BTreeSet<String> = paths.iter().map(|path| display(path)).collect();
        shown.len() == paths.len()
    })
}

proptest! {
    /// A name that clients see leads back to its output, and to no other output.
    #[test]
    fn every_name_finds_its_own_output(paths in some_paths()) {
        for (index, name) in names_of(&paths).iter().enumerate() {
            let found = find(&paths, name);
            prop_assert!(found == Some(index) || display(&paths[found.unwrap()]) == *name, "{}", name);
        }
    }
}

#[test]
fn a_name_that_two_outputs_have_is_neither() {
    // {"a": {"b": x}, "a.b": y}
    let outputs = run_outputs(&["a.b", "a.b"]);
    let binding = OutputBinding::Keyed(ExtraOutputs::Dropped);
    assert!(binding.choose(&configs(&["a.b"]), &outputs).is_err());
    assert!(binding.choose(&configs(&["a.b"]), &outputs[..1]).is_ok());
}
