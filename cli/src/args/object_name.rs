//! Names of Kubernetes objects in flags.

/// Namespace and name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Longest name of an object, in bytes.
const MAX_NAME: usize = 253;

/// Parses NAMESPACE/NAME.
///
/// # Errors
/// A clause that says how to write the name of a Secret.
pub(super) fn secret_name(text: &str) -> Result<SecretName, String> {
    let wrong = "write the namespace and the name of a Secret, such as weir-system/weir-access";
    let (namespace, name) = text.split_once('/').ok_or(wrong)?;
    Ok(SecretName { namespace: object_name(namespace)?, name: object_name(name)? })
}

/// Parses the name of an object, which becomes part of the API server's URLs.
///
/// # Errors
/// A clause that says which characters a name has.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if bytes.len() <= MAX_NAME && bytes.iter().copied().all(is_allowed) && ends(bytes.first()) && ends(bytes.last()) {
        return Ok(text.to_owned());
    }
    Err("the name of an object has up to 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_are_read() {
        let read = secret_name("weir-system/weir-access").unwrap();
        assert_eq!((&*read.namespace, &*read.name), ("weir-system", "weir-access"));
        for wrong in ["", "weir-access", "/", "a/", "/a", "a/b/c", "a/..", "../a", "a/B", "a/b?c", "a/%2e", "a/-"] {
            assert!(secret_name(wrong).is_err(), "{wrong}");
        }
        assert!(object_name(&"a".repeat(253)).is_ok() && object_name(&"a".repeat(254)).is_err());
    }
}
