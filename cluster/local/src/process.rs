//! A child process with all of its descendants.
//!
//! Child processes and their descendants must die with Weir, even if Weir is killed and cannot act. `PR_SET_PDEATHSIG`
//! is no solution: it would need code between fork and exec, which is unsafe; it takes effect when the forking thread
//! ends instead of the process; and grandchildren lose it. Instead, a shell is started first: it leads a new process
//! group, leaves a watcher process in the group that reads from a pipe whose other end only Weir holds, and becomes the
//! command by `exec`. When Weir ends for any reason, the kernel closes Weir's end; the watcher reads the end of the
//! pipe and kills its group. The process that Weir waits for and signals is the command itself.
//!
//! A command that creates its own session (a daemon) leaves the group; it must not do this, just as in a container.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// Path of a shell that every Unix system has.
const SHELL: &str = "/bin/sh";

/// Script with the command as `$@` and the pipe that ends with Weir as standard input. The watcher is started by a
/// subshell that exits at once, so the command does not see a child that it did not start. The watcher ignores the
/// signals meant for the command and prints nothing. While it lives, its group id cannot be reused.
const SCRIPT: &str = r#"
exec 3<&0 </dev/null
(
  trap '' HUP INT TERM
  (read -r line; kill -s KILL -- "-$$") <&3 >/dev/null 2>&1 3<&- &
)
exec "$@" 3<&-
"#;

/// A running process. Dropping it kills the process and its whole group at once.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Closing this end of the pipe makes the watcher kill the group.
    _lifeline: PipeWriter,
}

/// Pipes for the output of a process.
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
        let mut command = Command::new(SHELL);
        command.args(["-c", SCRIPT, SHELL]);
        command.arg(program).args(args).env_clear().envs(env);
        command.stdin(reader).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        // The program was looked up before, so a file that is missing here is the shell.
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{SHELL}: {error}"));
        let mut child = command.spawn().map_err(named)?;
        let output = child.stdout.take().zip(child.stderr.take());
        let Some((stdout, stderr)) = output else {
            return Err(io::Error::other("the output of the process is not piped"));
        };
        let process = Self { child, _lifeline: lifeline };
        Ok((process, Output { stdout, stderr }))
    }

    /// Waits until the process ends. Dropping the future leaves the process running.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends SIGTERM, as Kubernetes does: to the process alone, not to its descendants.
    pub(crate) fn terminate(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // The process has not been waited for, so its id is still valid. If it has just ended, the error is
            // harmless.
            let _ = kill_process(id, Signal::TERM);
        }
    }

    /// Kills the process and its group at once.
    pub(crate) async fn kill(mut self) {
        // The process may already have ended, which is not an error.
        let _ = self.child.kill().await;
    }

    /// Ends the process: sends SIGTERM, waits for `grace`, then kills the process and its group.
    pub(crate) async fn end(mut self, grace: Duration) -> Ending {
        self.terminate();
        match tokio::time::timeout(grace, self.wait()).await {
            Ok(_) => Ending::ByItself,
            Err(_) => {
                // The process may already have ended, which is not an error.
                let _ = self.child.kill().await;
                Ending::Killed
            }
        }
    }
}

/// Ending of a process after SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The process ended within its grace period.
    ByItself,
    /// The process was killed after its grace period.
    Killed,
}

/// Returns the exit code as a shell does: 128 plus the signal's number for a process killed by a signal.
pub(crate) fn exit_code(status: &ExitStatus) -> Option<i32> {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(by_signal)
}

/// Describes the end of a process, as a clause.
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
