//! Ends a process that may still have running threads.

use std::io::Write;

/// Flushes the standard streams and ends the process without running exit handlers. Exit handlers tear libraries down,
/// and a thread that still executes library code would crash or return an error meanwhile.
pub fn exit_at_once(code: u8) -> ! {
    // If a stream is closed, there is nowhere to report the error.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    signal_hook::low_level::exit(code.into())
}
