//! The end of a process that may still have threads at work.

use std::io::Write;

/// Ends the process without its exit handlers, after what is in the standard streams' buffers was written. Exit handlers
/// tear libraries down, and a thread that runs in one of them meanwhile crashes or answers with an error of its own.
pub fn exit_at_once(code: u8) -> ! {
    // A closed stream leaves nowhere to report it.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    signal_hook::low_level::exit(code.into())
}
