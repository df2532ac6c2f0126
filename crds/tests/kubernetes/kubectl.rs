//! Calls of kubectl in the test's own namespace.

use std::io::Write;
use std::process::{Command, Stdio};

/// Namespace of one test. It is deleted together with the control plane.
pub(crate) struct Namespace {
    kubeconfig: String,
    name: String,
}

impl Namespace {
    /// Creates a namespace of this name.
    pub(crate) fn new(name: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "`make test-kube` sets this variable")]
        let Ok(kubeconfig) = std::env::var("WEIR_TEST_KUBECONFIG") else {
            panic!("no API server to test with: run `make test-kube`");
        };
        let namespace = Self { kubeconfig, name: name.to_owned() };
        namespace.done(&["create", "namespace", name], "");
        namespace
    }

    /// Runs kubectl and returns its output; a failure fails the test.
    #[track_caller]
    pub(crate) fn done(&self, args: &[&str], input: &str) -> String {
        match self.call(args, input) {
            Ok(output) => output,
            Err(error) => panic!("kubectl {}: {error}\n{input}", args.join(" ")),
        }
    }

    /// Runs kubectl and returns its output, or its error output if it fails.
    pub(crate) fn call(&self, args: &[&str], input: &str) -> Result<String, String> {
        let mut kubectl = Command::new("kubectl")
            .args(["--kubeconfig", &self.kubeconfig, "--namespace", &self.name])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = kubectl.stdin.take().unwrap();
        // A kubectl that has refused its arguments does not read the input, so the error is ignored.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = kubectl.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}
