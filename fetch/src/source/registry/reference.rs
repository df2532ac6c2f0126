//! Parses the reference of an image or artifact in a registry.

use crate::digest::Digest;

/// Scheme of a registry's URIs.
pub(crate) const SCHEME: &str = "oci://";

/// KServe's scheme for an image that the init container fetches, which Weir always does.
pub(crate) const FETCH_SCHEME: &str = "oci+fetch://";

/// Docker Hub's name, which a reference without a registry means.
const DOCKER_HUB: &str = "docker.io";

/// Host that serves Docker Hub's images.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// Tag of a reference that names neither a tag nor a digest.
const DEFAULT_TAG: &str = "latest";

/// Maximum length of a tag, as the specification has it.
const MAX_TAG: usize = 128;

/// Maximum length of a repository's name, as registries have it.
const MAX_REPOSITORY: usize = 255;

/// An image or artifact in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Host of the registry with its port if it has one.
    pub(crate) registry: String,
    /// Repository in the registry.
    pub(crate) repository: String,
    /// Version in the repository.
    pub(crate) pin: Pin,
}

/// A version in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// A name, which may move.
    Tag(String),
    /// Digest of the manifest.
    Digest(Digest),
}

impl Reference {
    /// Parses `oci://REGISTRY/REPOSITORY`, with `:TAG` or `@sha256:DIGEST` after it. A digest precedes a tag.
    ///
    /// # Errors
    /// The rule that the URI breaks, as a clause.
    pub(crate) fn parse(uri: &str) -> Result<Self, &'static str> {
        let name = uri.strip_prefix(SCHEME).or_else(|| uri.strip_prefix(FETCH_SCHEME));
        let name = name.ok_or("the URI does not begin with oci://")?;
        let (name, digest) = match name.split_once('@') {
            Some((name, digest)) => (name, Some(parse_digest(digest)?)),
            None => (name, None),
        };
        let (registry, path) = split_registry(name);
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(parse_tag(tag)?)),
            None => (path, None),
        };
        check_registry(registry)?;
        let repository = check_repository(registry, repository)?;
        let tag = Pin::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned());
        Ok(Self { registry: registry.to_owned(), repository, pin: digest.map_or(tag, Pin::Digest) })
    }

    /// Returns the host that serves the registry, with its port if it has one.
    pub(crate) fn host(&self) -> &str {
        if self.registry == DOCKER_HUB { DOCKER_HUB_HOST } else { &self.registry }
    }

    /// Returns the reference as messages show it.
    pub(crate) fn shown(&self) -> String {
        let Self { registry, repository, .. } = self;
        match &self.pin {
            Pin::Tag(tag) => format!("{SCHEME}{registry}/{repository}:{tag}"),
            Pin::Digest(digest) => format!("{SCHEME}{registry}/{repository}@sha256:{}", digest.hex()),
        }
    }
}

/// Splits off the registry by Docker's rule: the first part is a registry if it has a dot or a port, or is `localhost`.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some(("index.docker.io", rest)) => (DOCKER_HUB, rest),
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        Some(_) | None => (DOCKER_HUB, name),
    }
}

fn check_registry(registry: &str) -> Result<(), &'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let is_valid = registry.chars().all(is_allowed) && reqwest::Url::parse(&format!("https://{registry}/")).is_ok();
    if is_valid { Ok(()) } else { Err("the registry is not a host with or without a port") }
}

/// Returns the repository with the part that Docker Hub's own images leave out.
fn check_repository(registry: &str, repository: &str) -> Result<String, &'static str> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(is_allowed)
            && !part.starts_with(['.', '-', '_'])
            && !part.ends_with(['.', '-', '_'])
    };
    if repository.len() > MAX_REPOSITORY || !repository.split('/').all(is_part) {
        return Err("the repository must be of lower-case letters, digits, `.`, `-`, `_` and `/`, as in \
                    oci://REGISTRY/REPOSITORY:TAG");
    }
    let is_short = registry == DOCKER_HUB && !repository.contains('/');
    Ok(if is_short { format!("library/{repository}") } else { repository.to_owned() })
}

fn parse_tag(tag: &str) -> Result<&str, &'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_valid =
        !tag.is_empty() && tag.len() <= MAX_TAG && tag.chars().all(is_allowed) && !tag.starts_with(['.', '-']);
    if is_valid { Ok(tag) } else { Err("the tag must be of letters, digits, `.`, `-` and `_`") }
}

fn parse_digest(text: &str) -> Result<Digest, &'static str> {
    let digits = text.strip_prefix("sha256:").and_then(Digest::of_hex);
    digits.ok_or("the digest must be sha256: and 64 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed_as_docker_parses_them() {
        let digest = "ab".repeat(32);
        for (uri, host, shown) in [
            ("oci://ghcr.io/org/model:v1", "ghcr.io", "oci://ghcr.io/org/model:v1"),
            ("oci+fetch://ghcr.io/org/model", "ghcr.io", "oci://ghcr.io/org/model:latest"),
            ("oci://localhost/model", "localhost", "oci://localhost/model:latest"),
            ("oci://127.0.0.1:5000/a/b:V_1.x", "127.0.0.1:5000", "oci://127.0.0.1:5000/a/b:V_1.x"),
            ("oci://[::1]:5000/a", "[::1]:5000", "oci://[::1]:5000/a:latest"),
            ("oci://kserve/model", "registry-1.docker.io", "oci://docker.io/kserve/model:latest"),
            ("oci://busybox:1", "registry-1.docker.io", "oci://docker.io/library/busybox:1"),
            ("oci://index.docker.io/a/b", "registry-1.docker.io", "oci://docker.io/a/b:latest"),
        ] {
            let reference = Reference::parse(uri).unwrap();
            assert_eq!((reference.host(), reference.shown().as_str()), (host, shown), "{uri}");
        }
        for uri in [format!("oci://a.b/c@sha256:{digest}"), format!("oci://a.b/c:v1@sha256:{digest}")] {
            let reference = Reference::parse(&uri).unwrap();
            assert_eq!(reference.shown(), format!("oci://a.b/c@sha256:{digest}"), "{uri}");
        }
    }

    #[test]
    fn other_uris_are_refused_with_the_rule() {
        for (uri, expected) in [
            ("oci://", "the repository must"),
            ("oci://ghcr.io/", "the repository must"),
            ("oci://ghcr.io/A/b", "the repository must"),
            ("oci://ghcr.io/a//b", "the repository must"),
            ("oci://ghcr.io/../b", "the repository must"),
            ("oci://me:secret@ghcr.io/b", "the digest must"),
            ("oci://ghcr.io:port/b", "the registry is not"),
            ("oci://ghcr.io/a:", "the tag must"),
            ("oci://ghcr.io/a:x/y", "the tag must"),
            ("oci://ghcr.io/a@sha256:abc", "the digest must"),
            ("oci://ghcr.io/a@sha512:abc", "the digest must"),
            ("oci://ghcr.io/a?x", "the repository must"),
            ("oci+native://ghcr.io/a", "does not begin with oci://"),
        ] {
            let error = Reference::parse(uri).unwrap_err();
            assert!(error.contains(expected), "{uri}: {error}");
        }
    }
}
