//! The example, with the real runtime where it was built.

use std::path::{Path, PathBuf};

use crate::weir::Weir;

#[test]
fn the_example_reads_a_seven() {
    let Some(runtime) = runtime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let example = root().join("examples/digits");
    let mut weir = Weir::up(&example, folder.path(), &["--runtime", &runtime]);
    weir.see("ready", |service| service["ready"] == "True");
    let inputs = example.join("inputs");
    let json = inputs.join("digit-7-a.json").display().to_string();
    let npy = format!("image={}", inputs.join("digit-7-a.npy").display());
    for input in [["--json", &json], ["--npy", &npy]] {
        let answer = weir.client(&["infer", "digits", input[0], input[1]]);
        let text = String::from_utf8(answer.stdout).unwrap();
        let told = String::from_utf8(answer.stderr).unwrap();
        assert!(text.contains("digit INT64 [1,1]: 7\n"), "{text}{told}");
        assert!(text.contains("from digits-predictor-00001"), "{text}");
    }
    assert_eq!(weir.end().code(), Some(0), "{}", weir.output());
}

/// The model server that was built; none, with a word about it, where it was not.
pub(crate) fn runtime() -> Option<String> {
    let runtime = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("weir-runtime");
    if runtime.exists() {
        return Some(runtime.display().to_string());
    }
    println!(
        "skipped: {} is missing; `cargo build --workspace` makes it",
        runtime.display()
    );
    None
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
