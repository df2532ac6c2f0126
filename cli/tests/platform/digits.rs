//! The example with the real runtime, if the runtime is built.

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
    weir.wait_for("ready", |service| service["ready"] == "True");
    let inputs = example.join("inputs");
    let json = inputs.join("digit-7-a.json").display().to_string();
    let npy = format!("image={}", inputs.join("digit-7-a.npy").display());
    for input in [["--json", &json], ["--npy", &npy]] {
        let answer = weir.run(&["infer", "digits", input[0], input[1]]);
        let text = String::from_utf8(answer.stdout).unwrap();
        let message = String::from_utf8(answer.stderr).unwrap();
        assert!(text.contains("digit INT64 [1,1]: 7\n"), "{text}{message}");
        assert!(text.contains("from digits-predictor-00001"), "{text}");
    }
    assert_eq!(weir.stop().code(), Some(0), "{}", weir.output());
}

/// Returns the path of the model server; `None`, with a message, if it is not built.
pub(crate) fn runtime() -> Option<String> {
    let runtime = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("weir-runtime");
    if runtime.exists() {
        return Some(runtime.display().to_string());
    }
    println!("skipped: {} is missing; `cargo build --workspace` makes it", runtime.display());
    None
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
