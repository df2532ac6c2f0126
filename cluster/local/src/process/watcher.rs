//! The shell between us and a command.

/// Every Unix has it.
pub(super) const SHELL: &str = "/bin/sh";

/// `$@` is the command, standard input the pipe that ends with us. The watcher is started by a shell that
/// ends at once, so the command does not find a child that it never made. It ignores the signals that are
/// meant for the command, prints nothing, and its group cannot be another's while it lives.
pub(super) const SCRIPT: &str = r#"
exec 3<&0 </dev/null
(
  trap '' HUP INT TERM
  (read -r line; kill -s KILL -- "-$$") <&3 >/dev/null 2>&1 3<&- &
)
exec "$@" 3<&-
"#;
