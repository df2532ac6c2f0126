//! Files generated from the programs: `docs/flags.md`, `docs/metrics.md` and the list of the runtime's flags.
//! The command `make generate` rewrites them.

mod flags;
mod metrics;

use std::path::{Path, PathBuf};

/// Fails if a file of the repository differs from the expected text. With `UPDATE` set, rewrites the file.
fn check(file: &str, expected: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    #[expect(clippy::disallowed_methods, reason = "only this test reads UPDATE, to rewrite the file")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{file} is out of date: `make generate` rewrites it");
}
