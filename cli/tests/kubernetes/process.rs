//! One of Weir's processes, running under the service account of the chart.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster::kubectl;

/// A running process and the path of its log.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

/// One of Weir's components, to be started for the services of one namespace.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) component: &'a str,
    pub(crate) name: &'a str,
    /// Namespace of Weir, and that of the services.
    pub(crate) namespaces: (&'a str, &'a str),
    /// Folder of the process's output.
    pub(crate) folder: &'a Path,
}

impl Start<'_> {
    /// Starts the process with further flags.
    pub(crate) fn process(self, more: &[&str]) -> Process {
        let Self { component, name, namespaces, folder } = self;
        let kubeconfig = folder.join(format!("{component}.kubeconfig"));
        fs::write(&kubeconfig, account(component, namespaces.0).to_string()).unwrap();
        let log = folder.join(format!("{component}-{}.log", fs::read_dir(folder).unwrap().count()));
        let output = File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([component, "--admin-port", "0", "--address", "127.0.0.1", "-v"])
            .args(["--namespace", namespaces.0, "--watch-namespace", namespaces.1])
            .args(["--name", name])
            .args(more)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Process { child, log }
    }
}

impl Process {
    /// Returns everything that the process has printed so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Stops the process with SIGTERM, and returns everything that it printed.
    pub(crate) fn end(mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap();
        self.output()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a kubeconfig that holds only the account's token.
fn account(component: &str, namespace: &str) -> Value {
    let token = kubectl(&["create", "token", &format!("weir-{component}"), "-n", namespace], "");
    let config = kubectl(&["config", "view", "--raw", "-o", "json"], "");
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["users"] = json!([{"name": "account", "user": {"token": token.trim()}}]);
    config["contexts"][0]["context"]["user"] = "account".into();
    config
}
