//! Access to the API server through kubectl.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for any condition, on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_secs(90);

/// Returns the path of the administrator's kubeconfig.
pub(crate) fn kubeconfig() -> PathBuf {
    let path = std::env::var_os("WEIR_TEST_KUBECONFIG");
    let path = path.unwrap_or_else(|| panic!("no API server to test with: run `make test-kube`"));
    path.into()
}

/// Runs kubectl, which must succeed, and returns its standard output.
pub(crate) fn kubectl(arguments: &[&str], input: &str) -> String {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(kubeconfig()).args(arguments);
    kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = kubectl.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Applies YAML or JSON documents, each of which sets its namespace.
pub(crate) fn apply(documents: &[String]) {
    let mut text = String::new();
    for document in documents {
        write!(text, "---\n{document}\n").unwrap();
    }
    kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &text);
}

/// Returns an object as JSON; null if it does not exist.
pub(crate) fn get(namespace: &str, object: &str) -> Value {
    let text = kubectl(&["get", object, "-n", namespace, "--ignore-not-found", "-o", "json"], "");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Waits until `is_so` returns true; `explain` describes the state if it does not.
pub(crate) fn wait_until(what: &str, explain: impl Fn() -> String, is_so: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}: {}", explain());
        std::thread::sleep(Duration::from_millis(200));
    }
}
