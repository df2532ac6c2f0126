//! A running `weir up`.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http;

/// Nothing takes so long, even on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks at what cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_weir");

pub(crate) struct Weir {
    process: Child,
    state: PathBuf,
    log: PathBuf,
    pub(crate) serving: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Weir {
    /// Starts it on free ports, and waits until it has them. `folder` takes its state and its output.
    pub(crate) fn up(files: &Path, folder: &Path, more: &[&str]) -> Self {
        let state = folder.join("state");
        let log = folder.join("output.log");
        let output = File::create(&log).unwrap();
        // Whoever started the tests may ignore SIGHUP, as `nohup` does, and what they start would inherit that.
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
        until("admin.json", || file.exists(), || read(&log));
        let value: Value = serde_json::from_str(&read(&file)).unwrap();
        let address = |key: &str| value[key].as_str().unwrap().parse().unwrap();
        Self {
            process,
            serving: address("serving"),
            admin: address("admin"),
            state,
            log,
        }
    }

    /// What it printed so far.
    pub(crate) fn output(&self) -> String {
        read(&self.log)
    }

    pub(crate) fn status(&self) -> Value {
        let (status, text) = http::ask(self.admin, "localhost", "GET", "/status");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Waits until the only service is like this.
    pub(crate) fn see(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let looks = || is_so(&self.status()["services"][0]);
        let explain = || format!("{:#}\n{}", self.status(), self.output());
        until(what, looks, explain);
        self.status()["services"][0].clone()
    }

    /// Waits until the gateway sends this revision of the only service so many percent of its requests. The
    /// status is the cluster's, which the gateway follows a moment later.
    pub(crate) fn see_share(&self, revision: &str, percent: u64) {
        let what = format!("{percent} % at {revision}");
        let is_so = || self.share_of(revision) == Some(percent);
        until(&what, is_so, || self.output());
    }

    /// A revision's share in percent, as the gateway has it; none where it has none.
    fn share_of(&self, revision: &str) -> Option<u64> {
        let (_, text) = http::ask(self.admin, "localhost", "GET", "/routes");
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let routes: Value = serde_json::from_str(body).unwrap();
        let split = routes["routes"][0]["split"].as_array()?;
        let target = split.iter().find(|target| target["revision"] == revision);
        target?["weight"].as_u64()
    }

    /// Runs another `weir` that finds this one.
    pub(crate) fn client(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).arg("--state-dir").arg(&self.state);
        command.output().unwrap()
    }

    /// Sends SIGTERM, and waits for the orderly end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.terminate();
        let status = self.ended();
        assert!(!self.state.join("admin.json").exists());
        status
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it at once, without a chance to do anything.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends what a terminal sends that closes.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits until it says that it ends.
    pub(crate) fn draining(&self) {
        let says = || http::ask(self.admin, "localhost", "GET", "/health").0 == 503;
        until("the end to begin", says, || self.output());
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let log = &self.log;
        ended(&mut self.process, || read(log))
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // A failed test leaves nothing behind: its replicas end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the end of a process; one that does not end is killed.
pub(crate) fn ended(process: &mut Child, explain: impl Fn() -> String) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if Instant::now() >= deadline {
            process.kill().unwrap();
            panic!("it does not end: {}", explain());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Waits until something is so that nobody tells.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool, explain: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        let is_late = Instant::now() >= deadline;
        assert!(!is_late, "waited for {what}: {}", explain());
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
