//! Libraries of operators that models need, opened for the whole process.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use weir_runtime::backend::LoadError;

use crate::libtorch::process;

/// Contents of the open libraries. The operators stay registered, and registering them again would fail.
static OPEN: Mutex<BTreeMap<Contents, PathBuf>> = Mutex::new(BTreeMap::new());

/// Size and hash of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contents {
    size: usize,
    hash: u64,
}

/// Opens the libraries that are not open yet. A model without libraries does not wait for those of another one, which
/// may take seconds.
pub(crate) fn open(model: &str, libraries: &[PathBuf]) -> Result<(), LoadError> {
    if libraries.is_empty() {
        return Ok(());
    }
    let mut open = OPEN.lock();
    for path in libraries {
        open_one(&mut open, path).map_err(|reason| {
            LoadError::File(format!("op library '{}' of model '{model}' {reason}", path.display()))
        })?;
    }
    Ok(())
}

fn open_one(open: &mut BTreeMap<Contents, PathBuf>, path: &Path) -> Result<(), String> {
    let contents = read(path)?;
    if open.contains_key(&contents) {
        return Ok(());
    }
    process::open_operators(path).map_err(|fault| explain(&fault.to_string(), open))?;
    open.insert(contents, path.to_owned());
    Ok(())
}

fn read(path: &Path) -> Result<Contents, String> {
    if path.is_dir() {
        return Err("is a directory".to_owned());
    }
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "does not exist: op_library_filename is relative to the model's directory".to_owned()
        }
        _ => format!("cannot be read: {error}"),
    })?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(Contents { size: bytes.len(), hash: hasher.finish() })
}

/// Explains why a library cannot be opened: returns the remedy, followed by the loader's own message.
fn explain(reason: &str, open: &BTreeMap<Contents, PathBuf>) -> String {
    let any = |parts: &[&str]| parts.iter().any(|part| reason.contains(part));
    let what = if any(&["libtorch_python", "libpython", "symbol: Py", "symbol: _Py"]) {
        "needs Python, which this server does not have: build it without torch/extension.h and torch_python, \
         with TORCH_LIBRARY of torch/library.h"
            .to_owned()
    } else if any(&["_cuda", "libcud", "libcublas", "libnv"]) {
        "needs CUDA libraries that are not here: build it for the processor, or run it where a GPU is used".to_owned()
    } else if any(&["multiple times", "Only a single TORCH_LIBRARY", "already registered"]) {
        let others: Vec<String> = open.values().map(|path| path.display().to_string()).collect();
        format!(
            "registers operators that are registered already, by {}: a process can hold one library of each, so \
             restart the server with this one alone",
            match others.as_slice() {
                [] => "the server itself".to_owned(),
                others => format!("the server itself or {}", others.join(", ")),
            }
        )
    } else if any(&["invalid ELF header", "file too short", "wrong ELF class"]) {
        "is not a shared library for this machine".to_owned()
    } else if any(&["undefined symbol"]) {
        "does not fit this server's libtorch: build it with the same version, and link all that it uses".to_owned()
    } else {
        "cannot be opened".to_owned()
    };
    format!("{what} ({reason})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_comes_with_what_to_do() {
        for (reason, said) in [
            ("libtorch_python.so: cannot open shared object file", "needs Python"),
            ("a.so: undefined symbol: PyLong_FromLong", "needs Python"),
            ("a.so: undefined symbol: _PyObject_New", "needs Python"),
            ("libcudart.so.13: cannot open shared object file", "needs CUDA"),
            ("libc10_cuda.so: cannot open shared object file", "needs CUDA"),
            ("Tried to register an operator (x) multiple times", "restart"),
            ("a.so: undefined symbol: _ZN3c105ErrorC2E", "same version"),
            ("a.so: invalid ELF header", "not a shared library"),
            ("libmine.so: cannot open shared object file", "cannot be opened"),
        ] {
            let text = explain(reason, &BTreeMap::new());
            assert!(text.contains(said) && text.contains(reason), "{text}");
        }
    }
}
