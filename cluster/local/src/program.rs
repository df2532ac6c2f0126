//! Lookup of the program that a command names.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a program as a shell does: a name with a slash is a path relative to `directory`, any other name is looked up
/// in `search`, the value of `PATH`. The error is a sentence that names the program.
pub(crate) fn find(name: &str, directory: Option<&Path>, search: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        let path = directory.map_or_else(|| PathBuf::from(name), |d| d.join(name));
        return check(path);
    }
    let mut found = std::env::split_paths(search).map(|folder| folder.join(name));
    found.find(|path| is_program(path)).ok_or_else(|| format!("program {name} not found in PATH"))
}

fn check(path: PathBuf) -> Result<PathBuf, String> {
    if is_program(&path) {
        return Ok(path);
    }
    let text = path.display();
    Err(match std::fs::metadata(&path) {
        Ok(meta) if meta.is_file() => format!("{text} is not executable"),
        Ok(_) => format!("{text} is not a file"),
        Err(_) => format!("no such program: {text}"),
    })
}

/// Returns true if the path leads to an executable file; symbolic links are followed.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    let meta = std::fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_does() {
        let search = "/nowhere:/bin:/usr/bin";
        assert!(find("sh", None, search).unwrap().ends_with("sh"));
        assert_eq!(find("/bin/sh", None, "").unwrap(), Path::new("/bin/sh"));
        let sh = find("./sh", Some(Path::new("/bin")), "").unwrap();
        assert_eq!(sh, Path::new("/bin/./sh"));
    }

    #[test]
    fn missing_programs_are_named() {
        let error = |name: &str| find(name, None, "/bin").unwrap_err();
        assert_eq!(error("no-such"), "program no-such not found in PATH");
        assert_eq!(error("/no/such"), "no such program: /no/such");
        assert_eq!(error("/etc/passwd"), "/etc/passwd is not executable");
        assert_eq!(error("/etc/"), "/etc/ is not a file");
    }
}
