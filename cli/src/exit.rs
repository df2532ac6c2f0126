//! Exit codes; scripts rely on them.

use std::process::ExitCode;

/// Outcome of a command, with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded: exit code 0.
    Done,
    /// The command failed: exit code 1.
    Failed,
    /// The flags or the YAML are wrong: exit code 2.
    Usage,
    /// A port is in use: exit code 3.
    PortTaken,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::from(0),
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::PortTaken => Self::from(3),
        }
    }
}
