//! Source of a model, by its URI.

use std::path::{Component, Path};

/// Source of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// Directory or file on a PersistentVolumeClaim.
    Claim { claim: &'a str, path: &'a str },
    /// Path in the container's own image, never on the node.
    InContainer { path: &'a str },
    /// URL that is fetched before the server starts.
    Remote { uri: &'a str },
}

/// Schemes that KServe supports and Weir does not fetch.
const KSERVES: [&str; 9] = ["s3", "gs", "hf", "oci", "oci+native", "oci+fetch", "hdfs", "webhdfs", "modelscope"];

impl<'a> Source<'a> {
    /// Parses a URI. The error is a clause that names the URI and says what to write instead.
    pub(super) fn of(uri: &'a str) -> Result<Self, String> {
        let shown = weir_fetch::without_secrets(uri);
        let refused = |because: &str| Err(format!("storage {shown:?} {because}"));
        let Some((scheme, rest)) = uri.split_once("://") else {
            return refused("is no URI: write one such as pvc://CLAIM/PATH");
        };
        match scheme {
            "pvc" => Self::claim(rest).or_else(refused),
            "file" if is_within(rest) && rest.starts_with('/') => Ok(Self::InContainer { path: rest }),
            "file" => refused("is no absolute path in the container: write file:///PATH"),
            "http" | "https" => match weir_fetch::check_uri(uri) {
                Ok(()) => Ok(Self::Remote { uri }),
                Err(error) => Err(format!("storage {error}")),
            },
            known if KSERVES.contains(&known) => refused(
                "is not fetched by Weir: copy the files to a volume and write pvc://CLAIM/PATH, or serve an archive of \
                 them and write https://HOST/FILE",
            ),
            _ => refused("is not supported: use pvc://CLAIM/PATH, file:///PATH or https://HOST/FILE"),
        }
    }

    fn claim(rest: &'a str) -> Result<Self, &'static str> {
        let (claim, path) = rest.split_once('/').unwrap_or((rest, ""));
        if claim.is_empty() {
            return Err("names no claim: write pvc://CLAIM/PATH");
        }
        if !is_within(path) {
            return Err("leads out of its claim: remove `..` from the path");
        }
        Ok(Self::Claim { claim, path: path.trim_matches('/') })
    }
}

fn is_within(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !parts.any(|part| part == Component::ParentDir)
}
