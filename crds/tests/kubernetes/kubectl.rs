//! Calls of kubectl in a namespace of the test's own.

use std::io::Write;
use std::process::{Command, Stdio};

/// A namespace of one test. It goes with the whole control plane.
pub(crate) struct Namespace {
    kubeconfig: String,
    name: String,
}

impl Namespace {
    /// Makes a namespace of this name.
    pub(crate) fn new(name: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "that is how `make test-kube` tells it")]
        let Ok(kubeconfig) = std::env::var("WEIR_TEST_KUBECONFIG") else {
            panic!("no API server to test with: run `make test-kube`");
        };
        let namespace = Self { kubeconfig, name: name.to_owned() };
        namespace.done(&["create", "namespace", name], "");
        namespace
    }

    /// What kubectl prints; that it fails ends the test.
    #[track_caller]
    pub(crate) fn done(&self, args: &[&str], input: &str) -> String {
        match self.call(args, input) {
            Ok(output) => output,
            Err(error) => panic!("kubectl {}: {error}\n{input}", args.join(" ")),
        }
    }

    /// What kubectl prints, or why it fails.
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
        // One that has refused its arguments reads no input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = kubectl.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}
