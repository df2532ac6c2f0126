//! Validation of model names, and versions in the names of directories.

use weir_protocol::Code;

use crate::error::ServeError;

/// Linux's `NAME_MAX` in bytes: no directory, and so no model, has a longer name.
const LONGEST: usize = 255;

/// Refuses invalid model names. Only names that pass this check are ever used in a path.
///
/// # Errors
/// InvalidArgument, in Triton's words if Triton has the error.
pub(in crate::repository) fn check(name: &str) -> Result<(), ServeError> {
    let message = if name.trim().is_empty() {
        "Model name cannot be empty. Please enter a valid name to deploy.".to_owned()
    } else if name.len() > LONGEST {
        format!("invalid model name of {} bytes, at most {LONGEST} are allowed", name.len())
    } else if matches!(name, "." | "..") || name.contains(['/', '\\', '\0']) {
        format!("invalid model name '{}', model name must not contain path traversal characters", name.escape_debug())
    } else {
        return Ok(());
    };
    Err(ServeError::Repository { message, code: Code::InvalidArgument })
}

/// Returns the version that a directory's name stands for; `None` for a name that is not a number, has a leading zero
/// or exceeds Triton's `int64`.
pub(in crate::repository) fn version(name: &str) -> Option<u64> {
    let leads_with_zero = name.len() > 1 && name.starts_with('0');
    let digits = !leads_with_zero && name.bytes().all(|byte| byte.is_ascii_digit());
    let version = digits.then(|| name.parse::<u64>().ok())??;
    i64::try_from(version).is_ok().then_some(version)
}

#[cfg(test)]
mod tests {
    use weir_protocol::{Code, Coded};

    use super::{check, version};

    fn refused(name: &str, words: &str) {
        let error = check(name).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.code(), Code::InvalidArgument);
    }

    #[test]
    fn invalid_names_are_refused() {
        refused("", "Model name cannot be empty. Please enter a valid name to deploy.");
        refused(" \t", "Model name cannot be empty.");
        refused("..", "invalid model name '..', model name must not contain path traversal");
        refused(".", "path traversal characters");
        refused("a/../b", "path traversal characters");
        refused("a\\b", "path traversal characters");
        refused("a\0b", "path traversal characters");
        refused(&"x".repeat(256), "256 bytes, at most 255");
    }

    #[test]
    fn valid_names_are_accepted() {
        for name in ["digits", "a.b", "a..b", "größe", "with space", &"x".repeat(255)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn only_plain_numbers_are_versions() {
        assert_eq!(version("0"), Some(0));
        assert_eq!(version("1"), Some(1));
        assert_eq!(version("9223372036854775807"), Some(i64::MAX as u64));
        for name in ["", "00", "01", "x", "1x", "+1", "-1", "1.0", " 1", "9223372036854775808", "٣"] {
            assert_eq!(version(name), None, "{name}");
        }
    }
}
