//! Tests libraries of operators that models need, compiled by the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_protocol::DataType;
use weir_runtime::backend::ModelSource;

use crate::fixture::*;

/// C++ source of the operator `mine::triple` that the model `custom_op` calls, and of a replacement for torchvision's
/// `nms`.
const OPERATORS: &str = r#"
#include <ATen/ATen.h>
#include <torch/library.h>
at::Tensor triple(const at::Tensor& x) { return x * 3; }
at::Tensor last(const at::Tensor& boxes, const at::Tensor&, double) { return at::arange(1) + boxes.size(0) - 1; }
TORCH_LIBRARY(mine, m) { m.def("triple(Tensor x) -> Tensor", triple); }
TORCH_LIBRARY_FRAGMENT(torchvision, m) {
  m.def("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", last);
}
"#;

/// Compiles a shared library, which may have undefined symbols.
fn compile(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let (code, library) = (folder.join("op.cc"), folder.join("op.so"));
    std::fs::write(&code, source).unwrap();
    let libtorch = Path::new(env!("LIBTORCH"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let include = root.join(libtorch).join("include");
    let api = include.join("torch/csrc/api/include");
    let status = Command::new("c++")
        .args(["-shared", "-fPIC", "-std=c++20", "-w", "-O0", "-I"])
        .arg(&include)
        .arg("-I")
        .arg(&api)
        .arg("-o")
        .args([&library, &code])
        .args(flags)
        .status();
    assert!(status.unwrap().success());
    library
}

fn with_library(name: &str, library: PathBuf) -> ModelSource {
    ModelSource { op_libraries: vec![library], ..bare(name) }
}

#[test]
fn a_model_runs_the_operators_of_its_library() {
    let error = refusal(&bare("custom_op")).to_string();
    assert!(error.contains("op_library_filename"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), OPERATORS, &[]);
    let mut model = instance(&with_library("custom_op", library.clone()));
    let request = whole("x", DataType::Fp32, &[1, 1], floats(&[2.0]));
    let outputs = run(&mut *model, vec![request]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [6.0]);

    // The same library in another model's folder is not opened twice.
    let copy = folder.path().join("copy.so");
    std::fs::copy(&library, &copy).unwrap();
    instance(&with_library("custom_op", copy));

    // The library's nms runs instead of the built-in one; roi_align is still built in.
    let mut source = bare("vision");
    source.max_batch_size = Some(0);
    let f = |name, dims: &[i64]| tensor(name, DataType::Fp32, dims);
    source.inputs = vec![f("boxes", &[-1, 4]), f("scores", &[-1]), f("x", &[-1, -1, -1, -1]), f("rois", &[-1, 5])];
    source.outputs = vec![tensor("kept", DataType::Int64, &[-1])];
    let mut vision = instance(&source);
    let columns = vec![
        whole("boxes", DataType::Fp32, &[3, 4], floats(&[1.0; 12])),
        whole("scores", DataType::Fp32, &[3], floats(&[1.0; 3])),
        whole("x", DataType::Fp32, &[1, 1, 2, 2], floats(&[1.0; 4])),
        whole("rois", DataType::Fp32, &[1, 5], floats(&[0.0; 5])),
    ];
    let outputs = run(&mut *vision, columns).unwrap();
    assert_eq!(*outputs[0].data(), ints(&[2]));
}

/// A library that registers an operator again throws when it is opened, which would end the process.
#[test]
fn a_library_with_operators_that_are_taken_is_refused() {
    instance(&bare("detector"));
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), OPERATORS, &[]);
    let error = refusal(&with_library("custom_op", library)).to_string();
    assert!(error.contains("registered already"), "{error}");
    instance(&bare("detector"));
}

#[test]
fn libraries_that_cannot_be_opened_are_refused_and_the_process_lives() {
    let folder = tempfile::tempdir().unwrap();
    let constructor = |body: &str| {
        format!(
            "#include <cstdlib>\n#include <unistd.h>\nextern \"C\" long PyLong_FromLong(long);\n\
                 __attribute__((constructor)) static void start() {{ {body} }}"
        )
    };
    for (body, said) in [
        ("PyLong_FromLong(1);", "needs Python"),
        ("std::abort();", "it ends the process"),
        ("*(volatile int*)0 = 1;", "it ends the process"),
        ("throw 5;", "an exception other than"),
        ("for (;;) pause();", "did not return within 10 s"),
    ] {
        let library = compile(folder.path(), &constructor(body), &[]);
        let error = refusal(&with_library("identity", library)).to_string();
        assert!(error.contains(said), "{body}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    for (path, said) in [
        (text, "not a shared library"),
        (folder.path().join("none.so"), "does not exist"),
        (folder.path().to_owned(), "is a directory"),
    ] {
        let error = refusal(&with_library("identity", path)).to_string();
        assert!(error.contains(said), "{error}");
    }
}
