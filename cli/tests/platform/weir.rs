//! A running `weir up`.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http;

/// Longest wait for any condition, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(180);

/// Interval at which a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Path of the program `weir`.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_weir");

pub(crate) struct Weir {
    process: Child,
    state: PathBuf,
    log: PathBuf,
    pub(crate) serving: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Weir {
    /// Starts `weir up` on free ports, with its state and output in `folder`, and waits until the ports are known.
    pub(crate) fn up(files: &Path, folder: &Path, more: &[&str]) -> Self {
        let state = folder.join("state");
        let log = folder.join("output.log");
        let output = File::create(&log).unwrap();
        // Tests under `nohup` ignore SIGHUP, and their child processes would inherit that.
        let process = Command::new("env")
            .args(["--default-signal=HUP", PROGRAM])
            .args(["up", "--port", "0", "--admin-port", "0", "-v", "-f"])
            .arg(files)
            .arg("--state-dir")
            .arg(&state)
            .args(more)
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let file = state.join("admin.json");
        wait_until("admin.json", || file.exists(), || read(&log));
        let value: Value = serde_json::from_str(&read(&file)).unwrap();
        let address = |key: &str| value[key].as_str().unwrap().parse().unwrap();
        Self { process, serving: address("serving"), admin: address("admin"), state, log }
    }

    /// Returns everything that the process has printed so far.
    pub(crate) fn output(&self) -> String {
        read(&self.log)
    }

    pub(crate) fn status(&self) -> Value {
        let (status, text) = http::send(self.admin, "localhost", "GET", "/status");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Waits until the condition holds for the only service.
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let holds = || is_so(&self.status()["services"][0]);
        let explain = || format!("{:#}\n{}", self.status(), self.output());
        wait_until(what, holds, explain);
        self.status()["services"][0].clone()
    }

    /// Waits until the gateway sends this share of the requests, in percent, to this revision of the only service. The
    /// status shows the cluster's state, which the gateway follows a moment later.
    pub(crate) fn wait_for_share(&self, revision: &str, percent: u64) {
        let what = format!("{percent} % at {revision}");
        let is_so = || self.share_of(revision) == Some(percent);
        wait_until(&what, is_so, || self.output());
    }

    /// Returns a revision's share in the gateway's routes, in percent; `None` if it has none.
    fn share_of(&self, revision: &str) -> Option<u64> {
        let (_, text) = http::send(self.admin, "localhost", "GET", "/routes");
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let routes: Value = serde_json::from_str(body).unwrap();
        let split = routes["routes"][0]["split"].as_array()?;
        let target = split.iter().find(|target| target["revision"] == revision);
        target?["weight"].as_u64()
    }

    /// Runs another `weir` command against this platform.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).arg("--state-dir").arg(&self.state);
        command.output().unwrap()
    }

    /// Sends SIGTERM, and waits for the graceful shutdown.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.terminate();
        let status = self.wait_for_exit();
        assert!(!self.state.join("admin.json").exists());
        status
    }

    /// Returns the state directory of the process.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the process, without a graceful shutdown.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends SIGTERM to the process.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGTERM repeatedly until the process has ended, because a signal soon after the first counts as the same.
    pub(crate) fn terminate_until_it_ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.output());
            self.terminate();
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGHUP, as a closing terminal does.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits until the shutdown has begun.
    pub(crate) fn wait_for_drain(&self) {
        let is_draining = || http::send(self.admin, "localhost", "GET", "/health").0 == 503;
        wait_until("the shutdown to begin", is_draining, || self.output());
    }

    /// Waits until the process has ended.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let log = &self.log;
        wait_for_exit(&mut self.process, || read(log))
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // This matters after a failed test; the replicas end with the process.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a process has ended, and kills it at the deadline.
pub(crate) fn wait_for_exit(process: &mut Child, explain: impl Fn() -> String) -> ExitStatus {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if Instant::now() >= deadline {
            process.kill().unwrap();
            panic!("it does not end: {}", explain());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Polls until a condition holds.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool, explain: impl Fn() -> String) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        let is_late = Instant::now() >= deadline;
        assert!(!is_late, "waited for {what}: {}", explain());
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
