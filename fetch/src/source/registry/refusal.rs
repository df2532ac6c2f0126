//! Sentences about what a registry refuses.

use serde::Deserialize;

use super::reference::Reference;

/// The user's authentication at the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryLogin {
    /// Requests have no credential of the user.
    Anonymous,
    /// Requests have the user's credential.
    Given,
}

/// Subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    /// A manifest with this tag or digest.
    Manifest(&'a str),
    /// A blob with this digest.
    Blob(&'a str),
}

/// Body of a refusal.
#[derive(Deserialize)]
struct Errors {
    errors: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    code: String,
}

/// Advice for a request without a credential.
const LOG_IN: &str = "put credentials into Docker's config.json (docker login) or a Secret of the type \
                      kubernetes.io/dockerconfigjson";

pub(super) fn access(is_anonymous: bool) -> RegistryLogin {
    if is_anonymous { RegistryLogin::Anonymous } else { RegistryLogin::Given }
}

/// Returns the code of the first error in a refusal's body; empty if there is none.
pub(super) fn code(body: &[u8]) -> String {
    let errors: Option<Errors> = serde_json::from_slice(body).ok();
    errors.and_then(|body| body.errors.into_iter().next()).map(|detail| detail.code).unwrap_or_default()
}

/// Returns the sentence about a failed authentication. `reason` says what the registry does.
pub(super) fn login(reference: &Reference, reason: &str, access: RegistryLogin) -> String {
    let Reference { registry, repository, .. } = reference;
    match access {
        RegistryLogin::Anonymous => {
            format!("{registry} has no public repository {repository}: check the name, or {LOG_IN}")
        }
        RegistryLogin::Given => format!("the registry {registry} {reason}: log in again (docker login {registry})"),
    }
}

/// Returns the sentence that says why a registry refused a request, and what to do.
pub(super) fn sentence(
    status: u16,
    code: &str,
    reference: &Reference,
    subject: &Subject<'_>,
    access: RegistryLogin,
) -> String {
    let Reference { registry, repository, .. } = reference;
    match (code, status, subject, access) {
        ("NAME_UNKNOWN", _, _, _) => format!("{registry} has no repository {repository}: check the name"),
        (_, 404, Subject::Manifest(version), _) => {
            format!("the repository {repository} of {registry} has no image {version}: check the tag or digest")
        }
        (_, 404, Subject::Blob(digest), _) => {
            format!("{registry} has the manifest, but not its blob {digest}: push the image again")
        }
        (_, 401 | 403, _, RegistryLogin::Anonymous) => login(reference, "", RegistryLogin::Anonymous),
        (_, 401, _, RegistryLogin::Given) => {
            let reason = format!("does not accept the credentials, or they may not pull {repository}");
            login(reference, &reason, RegistryLogin::Given)
        }
        (_, 403, _, RegistryLogin::Given) => {
            format!(
                "the user of the credentials for {registry} may not pull {repository}: grant the permission to pull"
            )
        }
        (_, status, _, _) => format!("the registry {registry} answered {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_to_do() {
        let reference = Reference::parse("oci://ghcr.io/a/b:v1").unwrap();
        let (manifest, blob) = (Subject::Manifest("v1"), Subject::Blob("sha256:ab"));
        for (status, code, subject, access, expected) in [
            (404, "NAME_UNKNOWN", manifest, RegistryLogin::Given, "ghcr.io has no repository a/b: check the name"),
            (404, "MANIFEST_UNKNOWN", manifest, RegistryLogin::Given, "a/b of ghcr.io has no image v1: check the tag"),
            (404, "BLOB_UNKNOWN", blob, RegistryLogin::Given, "not its blob sha256:ab: push the image again"),
            (
                401,
                "UNAUTHORIZED",
                manifest,
                RegistryLogin::Anonymous,
                "no public repository a/b: check the name, or put",
            ),
            (403, "DENIED", manifest, RegistryLogin::Anonymous, "no public repository a/b"),
            (
                401,
                "UNAUTHORIZED",
                blob,
                RegistryLogin::Given,
                "or they may not pull a/b: log in again (docker login ghcr.io)",
            ),
            (403, "DENIED", manifest, RegistryLogin::Given, "may not pull a/b: grant the permission to pull"),
            (418, "", blob, RegistryLogin::Given, "ghcr.io answered 418"),
        ] {
            let sentence = sentence(status, code, &reference, &subject, access);
            assert!(sentence.contains(expected), "{status} {code}: {sentence}");
        }
        let again = login(&reference, "does not accept the credentials", RegistryLogin::Given);
        assert_eq!(again, "the registry ghcr.io does not accept the credentials: log in again (docker login ghcr.io)");
    }

    #[test]
    fn the_code_is_in_the_body() {
        assert_eq!(code(br#"{"errors":[{"code":"DENIED","message":"x"}]}"#), "DENIED");
        for other in [&b""[..], b"{}", b"{\"errors\":[]}", b"<html>"] {
            assert_eq!(code(other), "");
        }
    }
}
