//! Errors of the dynamic loader, which end a program before its first line of output.

/// Error text of glibc's loader, between the names of the program and the library.
const MISSING: &str = ": error while loading shared libraries: ";

/// Prefixes of libtorch's libraries.
const LIBTORCH: [&str; 3] = ["libtorch", "libc10", "libgomp"];

/// Returns a sentence in place of the loader's error, if the last lines of the log contain one.
pub(super) fn explain(lines: &str) -> Option<String> {
    let (before, after) = lines.split_once(MISSING)?;
    let program = before.rsplit([' ', '/']).next().unwrap_or(before);
    let library = after.split(':').next().unwrap_or(after).trim();
    let advice = if LIBTORCH.iter().any(|name| library.starts_with(name)) {
        "run `make libtorch` in the checkout that it was built in, or add the folder of libtorch's libraries to \
         LD_LIBRARY_PATH"
    } else {
        "install the package that has it, or add its folder to LD_LIBRARY_PATH"
    };
    Some(format!("{program} cannot start, as the shared library {library} is missing: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_what_to_do() {
        let explained = explain(
            "/opt/weir/weir-runtime: error while loading shared libraries: libtorch_cpu.so: cannot open shared \
             object file: No such file or directory",
        );
        assert_eq!(
            explained.unwrap(),
            "weir-runtime cannot start, as the shared library libtorch_cpu.so is missing: run `make libtorch` in the \
             checkout that it was built in, or add the folder of libtorch's libraries to LD_LIBRARY_PATH"
        );
        let explained = explain("a | ./serve: error while loading shared libraries: libfoo.so.1: not found");
        let explained = explained.unwrap();
        assert!(explained.starts_with("serve cannot start, as the shared library libfoo.so.1 is missing: install"));
        assert_eq!(explain("ERROR no model"), None);
    }
}
