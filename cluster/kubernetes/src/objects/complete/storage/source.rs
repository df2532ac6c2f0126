//! Source of a model, by its URI.

use std::path::{Component, Path};

use weir_cluster::Storage;

/// Source of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// Directory or file on a PersistentVolumeClaim.
    Claim { claim: &'a str, path: &'a str },
    /// Path in the container's own image, never on the node.
    InContainer { path: &'a str },
    /// Image whose directory `/models` is mounted.
    Image { reference: &'a str },
    /// URL that is fetched before the server starts.
    Remote { uri: &'a str },
}

impl<'a> Source<'a> {
    /// Parses a URI. The error is a clause that names the URI and says what to write instead.
    pub(super) fn of(uri: &'a str) -> Result<Self, String> {
        let shown = weir_fetch::without_secrets(uri);
        let refused = |because: &str| Err(format!("storage {shown:?} {because}"));
        let Some((scheme, rest)) = uri.split_once("://") else {
            return refused("is no URI: write one such as pvc://CLAIM/PATH");
        };
        match scheme {
            _ if uri.starts_with(Storage::OF_CONFIG) => Ok(Self::Remote { uri }),
            "pvc" => Self::claim(rest).or_else(refused),
            "file" if is_within(rest) && rest.starts_with('/') => Ok(Self::InContainer { path: rest }),
            "file" => refused("is no absolute path in the container: write file:///PATH"),
            "oci+native" if is_reference(rest) => Ok(Self::Image { reference: rest }),
            "oci+native" => refused("is incomplete: write oci+native://REGISTRY/REPOSITORY:TAG"),
            _ if weir_fetch::is_remote(uri) => match weir_fetch::check_uri(uri) {
                Ok(()) => Ok(Self::Remote { uri }),
                Err(error) => Err(format!("storage {error}")),
            },
            _ if weir_fetch::is_unsupported(uri) => refused(
                "is not fetched by Weir: copy the files to a bucket or a volume and write s3://BUCKET/PREFIX or \
                 pvc://CLAIM/PATH, or install a ClusterStorageContainer for this scheme",
            ),
            _ => refused(
                "is not supported: use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hf://ORG/NAME, oci://REGISTRY/IMAGE, \
                 pvc://CLAIM/PATH, file:///PATH or https://HOST/FILE",
            ),
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

/// Returns true if an init container fetches the files of a URI.
pub(crate) fn is_fetched(uri: &str) -> bool {
    let others = ["pvc://", "file://", "oci+native://"];
    !others.iter().any(|scheme| uri.starts_with(scheme))
}

/// Returns true if the rest of a URI can be an image's reference. The kubelet checks the whole of it.
fn is_reference(rest: &str) -> bool {
    !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
}

fn is_within(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !parts.any(|part| part == Component::ParentDir)
}
