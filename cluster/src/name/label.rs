//! The DNS label rules that all names share.

use crate::ClusterError;

/// Maximum length of a DNS label (RFC 1035), and of the name of a Kubernetes Service.
pub(super) const MAX_LABEL: usize = 63;

/// Characters that a label may begin with.
#[derive(Clone, Copy)]
pub(super) enum First {
    /// `[a-z0-9]`, as for Kubernetes namespaces.
    LetterOrDigit,
    /// `[a-z]`, for names of services, which become names of Kubernetes Services.
    Letter,
}

/// Checks that `value` is a lower-case DNS label of at most `longest` characters.
pub(super) fn check(what: &'static str, value: &str, first: First, longest: usize) -> Result<(), ClusterError> {
    let fault = |because: String| Err(ClusterError::name(what, value, because));
    let begins = match first {
        First::LetterOrDigit => value.starts_with(is_inner),
        First::Letter => value.starts_with(|c: char| c.is_ascii_lowercase()),
    };
    if value.len() > longest {
        return fault(format!("must have at most {longest} characters, has {}", value.len()));
    }
    if !begins || !value.ends_with(is_inner) || !value.chars().all(|c| is_inner(c) || c == '-') {
        let start = match first {
            First::LetterOrDigit => "a letter or digit",
            First::Letter => "a letter",
        };
        return fault(format!(
            "must consist of lower case letters, digits or '-', start with {start} and not end with '-'"
        ));
    }
    Ok(())
}

fn is_inner(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}
