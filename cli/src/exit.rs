//! Exit codes, which scripts rely on.

use std::process::ExitCode;

/// Outcome of a command, with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command ended as asked: 0.
    Done,
    /// The command failed: 1.
    Failed,
    /// The flags or the YAML are wrong: 2.
    Usage,
    /// A port is in use: 3.
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
