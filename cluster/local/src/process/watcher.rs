//! The shell script that starts a command and its watcher.

/// Path of a shell that every Unix system has.
pub(super) const SHELL: &str = "/bin/sh";

/// Script with the command as `$@` and the pipe that ends with Weir as standard input. The watcher is started by a
/// subshell that exits at once, so the command does not see a child that it did not start. The watcher ignores the
/// signals meant for the command and prints nothing. While it lives, its group id cannot be reused.
pub(super) const SCRIPT: &str = r#"
exec 3<&0 </dev/null
(
  trap '' HUP INT TERM
  (read -r line; kill -s KILL -- "-$$") <&3 >/dev/null 2>&1 3<&- &
)
exec "$@" 3<&-
"#;
