//! Tests the heap set-up that the program makes before `main`.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running program, killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Number of polls at intervals of 10 ms; the program starts within about half a second.
const LOOKS: usize = 1000;

#[test]
fn the_heap_that_libtorch_fills_uses_huge_pages() -> io::Result<()> {
    if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        eprintln!("skipped: this kernel has no huge pages to offer");
        return Ok(());
    }
    let models = tempfile::tempdir()?;
    let running = Command::new(env!("CARGO_BIN_EXE_weir-runtime"))
        .arg("--model-repository")
        .arg(models.path())
        .args(["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let running = Running(running);
    let file = format!("/proc/{}/smaps", running.0.id());
    for _ in 0..LOOKS {
        if advised(&std::fs::read_to_string(&file)?) >= 48 << 10 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{}", std::fs::read_to_string(&file)?);
}

/// Returns the kilobytes of the heap that are advised as huge pages, according to `/proc/PID/smaps`.
fn advised(maps: &str) -> u64 {
    let (mut total, mut size, mut in_heap) = (0, 0, false);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Size:") => size = words.next().and_then(|size| size.parse().ok()).unwrap_or(0),
            Some("VmFlags:") if in_heap && words.any(|flag| flag == "hg") => total += size,
            Some(first) if !first.ends_with(':') => in_heap = line.ends_with("[heap]"),
            _ => {}
        }
    }
    total
}
