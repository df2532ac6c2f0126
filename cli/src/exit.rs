//! How the process ends; scripts rely on the numbers.

use std::process::ExitCode;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As asked: 0.
    Done,
    /// Something failed: 1.
    Failed,
    /// The flags or the YAML are wrong: 2.
    Usage,
    /// A port is taken: 3.
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
