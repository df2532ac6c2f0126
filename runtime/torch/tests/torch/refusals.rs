//! Tests files and configurations that must be refused, and the reasons in the errors.

use std::io::Write;

use bytes::Bytes;
use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, ModelError, ModelSource, UnguardedOperators, WarmUpFailures};

use crate::fixture::*;

const F: DataType = DataType::Fp32;

/// Tries to load these bytes as a model file, and returns the error.
fn refused(bytes: &[u8]) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let source = ModelSource { path: file.path().to_owned(), ..bare("m") };
    let error = refusal(&source);
    assert!(matches!(error, LoadError::File(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains(&*file.path().to_string_lossy()), "names no file: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn files_other_than_archives_are_refused() {
    assert!(refused(b"").contains("is empty"));
    assert!(refused(b"P").contains("not TorchScript"));
    assert!(refused(b"hello, this is no model").contains("not TorchScript"));
    assert!(refused(b"\x80\x02}q\x00.").contains("Python pickle"));
    assert!(refused(&[0; 4096]).contains("not TorchScript"));
    assert!(refused(b"PK\x03\x04").contains("damaged"));
}

#[test]
fn a_truncated_archive_is_refused_wherever_it_ends() {
    let whole = std::fs::read(path("mlp")).unwrap();
    for eighth in 1..8 {
        refused(&whole[..whole.len() * eighth / 8]);
    }
    refused(&whole[..whole.len() - 1]);
}

#[test]
fn an_archive_without_code_is_refused() {
    let bytes = std::fs::read(path("state_dict")).unwrap();
    let text = refused(&bytes);
    assert!(text.contains("is a state_dict") && text.contains("load_state_dict"), "{text}");
}

/// A changed byte anywhere must never crash the process; some of these files still load.
#[test]
fn damaged_archives_never_crash() {
    let whole = std::fs::read(path("add_sub")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for at in (0..whole.len()).step_by(13) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let path = folder.path().join("model.pt");
        std::fs::write(&path, bytes).unwrap();
        let source = ModelSource { path, ..bare("m") };
        let loaded = weir_runtime::backend::Backend::load(backend(), &source);
        if let Err(error) = loaded {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// A directory entry declares gigabytes of unpacked data.
#[test]
fn an_archive_that_declares_too_large_a_size_is_refused() {
    let mut bytes = std::fs::read(path("add_sub")).unwrap();
    let entry = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    // The uncompressed size is at offset 24 of a central directory entry; 0xffff_ffff would mean zip64.
    bytes[entry + 24..entry + 28].copy_from_slice(&0xf000_0000_u32.to_le_bytes());
    refused(&bytes);
}

#[test]
fn directories_and_absent_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (path, said) in
        [(folder.path().to_owned(), "is a directory"), (folder.path().join("none.pt"), "does not exist")]
    {
        let text = refusal(&ModelSource { path, ..bare("m") }).to_string();
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn configuration_and_model_must_agree() {
    let f = |name| tensor(name, F, &[2]);
    let text = |source| {
        let error = refusal(&source);
        assert!(matches!(error, LoadError::Config(_)), "{error}");
        error.to_string()
    };
    assert_eq!(
        text(configured("add_sub", 8, vec![f("a")], vec![f("y")])),
        "unable to load model 'add_sub', configuration expects 1 inputs, model provides 2"
    );
    let strings = tensor("x", DataType::Bytes, &[1]);
    assert!(text(configured("identity", 8, vec![strings], vec![f("y")])).contains("TYPE_STRING"));
    let mut source = bare("mlp");
    source.parameters.insert("INFERENCE_MODE".to_owned(), "maybe".to_owned());
    assert!(text(source).contains("INFERENCE_MODE"));
}

#[test]
fn an_operator_that_trusts_its_operands_is_refused_unless_it_is_allowed() {
    let name = "aten::embedding_dense_backward";
    let mut source = bare("unguarded");
    source.parameters.insert("method".to_owned(), "calls_aten__embedding_dense_backward".to_owned());
    let error = refusal(&source);
    assert!(matches!(error, LoadError::Config(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("model 'unguarded'") && text.contains(&format!("operators={name}")), "{text}");
    load(&ModelSource { unguarded_operators: UnguardedOperators::Only(vec![name.to_owned()]), ..source });
}

#[test]
fn outputs_unlike_the_configuration_fail_with_tritons_message() {
    let f = |name| tensor(name, F, &[2]);
    let failure = |model: &str, outputs| {
        // A load refuses such a configuration, unless warm-up failures are allowed.
        let source =
            ModelSource { warm_up_failures: WarmUpFailures::Allow, ..configured(model, 8, vec![f("x")], outputs) };
        let request = whole("x", F, &[1, 2], floats(&[1.0, 2.0]));
        match run(&mut *instance(&source), vec![request]) {
            Err(ModelError::Failed(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        failure("identity", vec![tensor("y", DataType::Int64, &[2])]),
        "configuration expects datatype TYPE_INT64 for output 'y', model provides TYPE_FP32"
    );
    let absent = configured("identity", 8, vec![f("x")], vec![f("OUTPUT__1")]);
    assert_eq!(
        refusal(&absent).to_string(),
        "The output OUTPUT__1 in the model configuration refers to an output index which doesn't exist. \
         This model has 1 outputs"
    );
    assert_eq!(failure("scalar", vec![f("y")]), "output 'y' is a scalar which is not supported.");
}

#[test]
fn data_that_does_not_fit_is_refused_before_the_run() {
    let f = |name| tensor(name, F, &[2]);
    let mut instance = instance(&configured("identity", 8, vec![f("x")], vec![f("y")]));
    let request = whole("x", F, &[1, 2], floats(&[1.0]));
    let error = run(&mut *instance, vec![request]).unwrap_err().to_string();
    assert!(error.contains("input 'x'"), "{error}");
}

/// Requests are checked against the signature first. If the signature is only a guess, the backend checks them against
/// the model.
#[test]
fn strings_never_become_a_tensor_nor_a_tensor_strings() {
    let failure = |source: &ModelSource, column| {
        let result = run(&mut *instance(source), vec![column]);
        result.unwrap_err().to_string()
    };
    let f = |name| tensor(name, F, &[2]);
    let takes_tensor = configured("identity", 8, vec![f("x")], vec![f("y")]);
    let said = "input 'x' of datatype BYTES cannot become an argument of type Tensor";
    for (shape, size) in [([1, 2], 8), ([0, 2], 0)] {
        let strings = whole("x", DataType::Bytes, &shape, Bytes::from(vec![0; size]));
        assert_eq!(failure(&takes_tensor, strings), said);
    }
    let t = |name| tensor(name, DataType::Bytes, &[-1]);
    let takes_strings = configured("strings", 0, vec![t("texts")], vec![t("y")]);
    let floats = whole("texts", F, &[2], floats(&[1.0, 2.0]));
    let error = failure(&takes_strings, floats);
    assert!(error.starts_with("input 'texts' of datatype FP32 cannot become"), "{error}");
}

#[test]
fn parts_of_another_datatype_are_refused_even_where_they_have_as_many_bytes() {
    let f = |name| tensor(name, F, &[1]);
    let mut instance = instance(&configured("identity", 8, vec![f("x")], vec![f("y")]));
    let parts: [(&[i64], Bytes); 2] = [(&[1, 1], floats(&[1.0])), (&[1, 1], floats(&[2.0]))];
    let mut mixed = column("x", F, &[2, 1], &parts);
    mixed.parts[1].datatype = DataType::Int32;
    let error = run(&mut *instance, vec![mixed]).unwrap_err().to_string();
    assert_eq!(error, "input 'x' of datatype INT32 is in a batch of FP32");
}
