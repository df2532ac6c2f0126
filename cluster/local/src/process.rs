//! One process, and everything it starts.
//!
//! Children must die with us, also when we are killed and cannot act, and so must what they started.
//! `PR_SET_PDEATHSIG` would need code between fork and exec, which is unsafe; it follows the thread that
//! forked instead of the process, and grandchildren lose it. So a shell stands in between: it leads a new
//! process group, leaves a watcher in it that reads from a pipe whose other end only we hold, and becomes
//! the command by `exec`. When we end, however that happens, the kernel closes our end; the watcher
//! reads the end of the pipe and kills its group. The process we wait for and signal is the command itself.
//!
//! A command that makes a session of its own (a daemon) leaves the group; it must not, just as in a container.

mod watcher;

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// A running process. Dropping it kills it and all of its group at once.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Closing it makes the watcher kill the group.
    _lifeline: PipeWriter,
}

/// Pipes with what a process prints.
pub(crate) struct Output {
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Process {
    /// Starts a program with exactly this environment.
    pub(crate) fn start(
        program: &Path,
        args: &[String],
        env: &BTreeMap<String, String>,
        directory: Option<&Path>,
    ) -> io::Result<(Self, Output)> {
        let (reader, lifeline) = io::pipe()?;
        let mut command = Command::new(watcher::SHELL);
        command.args(["-c", watcher::SCRIPT, watcher::SHELL]);
        command.arg(program).args(args).env_clear().envs(env);
        command.stdin(reader).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        // The program is looked for before; what is missing here is the shell.
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", watcher::SHELL));
        let mut child = command.spawn().map_err(named)?;
        let output = child.stdout.take().zip(child.stderr.take());
        let Some((stdout, stderr)) = output else {
            return Err(io::Error::other("its output is not piped"));
        };
        let process = Self { child, _lifeline: lifeline };
        Ok((process, Output { stdout, stderr }))
    }

    /// Waits for its end. Dropping the future leaves it running.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to end (SIGTERM), as Kubernetes does: the process alone, not those it started.
    pub(crate) fn ask_to_end(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // It has not been waited for, so the number is still its own. If it just ended, all is well.
            let _ = kill_process(id, Signal::TERM);
        }
    }

    /// Kills it and whatever it started, without asking.
    pub(crate) async fn kill(mut self) {
        // It may be gone by now, which is as well.
        let _ = self.child.kill().await;
    }

    /// Ends it: asks, waits for `grace`, then kills it and whatever it started.
    pub(crate) async fn end(mut self, grace: Duration) -> Ending {
        self.ask_to_end();
        match tokio::time::timeout(grace, self.wait()).await {
            Ok(_) => Ending::ByItself,
            Err(_) => {
                // It may be gone by now, which is as well.
                let _ = self.child.kill().await;
                Ending::Killed
            }
        }
    }
}

/// How a process ended after SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It ended within its grace period.
    ByItself,
    /// It was killed after its grace period.
    Killed,
}

/// The exit code as a shell gives it: 128 and the number of the signal for a process that one ended.
pub(crate) fn exit_code(status: &ExitStatus) -> Option<i32> {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(by_signal)
}

/// How a process ended, as a clause.
pub(crate) fn describe(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with status {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended".to_owned(),
        },
        Err(error) => format!("was lost: {error}"),
    }
}
