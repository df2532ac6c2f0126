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

/// Schemes that KServe reads and Weir does not.
const UNREAD: [&str; 5] = ["hdfs", "webhdfs", "git", "ms", "modelscope"];

/// Endings of the hosts of Azure's two stores, where a path may name a directory.
const AZURE: [&str; 2] = [".blob.core.windows.net", ".file.core.windows.net"];

impl<'a> Source<'a> {
    /// Parses a URI. The error is a clause that names the URI and says what to write instead.
    pub(super) fn of(uri: &'a str) -> Result<Self, String> {
        let shown = weir_fetch::without_secrets(uri);
        let refused = |because: &str| Err(format!("storage {shown:?} {because}"));
        let Some((scheme, rest)) = uri.split_once("://") else {
            return refused("is no URI: write one such as pvc://CLAIM/PATH");
        };
        let given = |is_complete: bool, form: &str| {
            if is_complete { Ok(Self::Remote { uri }) } else { refused(&format!("is incomplete: write {form}")) }
        };
        match scheme {
            _ if uri.starts_with(Storage::OF_CONFIG) => Ok(Self::Remote { uri }),
            "pvc" => Self::claim(rest).or_else(refused),
            "file" if is_within(rest) && rest.starts_with('/') => Ok(Self::InContainer { path: rest }),
            "file" => refused("is no absolute path in the container: write file:///PATH"),
            "http" | "https" if is_in_azure(rest) => given(parts(rest) > 1, "https://HOST/CONTAINER/PREFIX"),
            "http" | "https" => match weir_fetch::check_uri(uri) {
                Ok(()) => Ok(Self::Remote { uri }),
                Err(error) => Err(format!("storage {error}")),
            },
            "s3" | "gs" => given(parts(rest) > 0, "s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"),
            "hf" => given(parts(rest) > 1, "hf://ORG/NAME or hf://ORG/NAME:REVISION"),
            "oci" | "oci+fetch" => given(parts(rest) > 1, "oci://REGISTRY/REPOSITORY:TAG"),
            "oci+native" if parts(rest) > 0 => Ok(Self::Image { reference: rest }),
            "oci+native" => refused("is incomplete: write oci+native://REGISTRY/REPOSITORY:TAG"),
            known if UNREAD.contains(&known) => refused(
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

fn is_in_azure(rest: &str) -> bool {
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    AZURE.iter().any(|ending| host.len() > ending.len() && host.ends_with(ending))
}

/// Returns the number of parts of a host or bucket and a path; 0 if the first part is empty.
fn parts(rest: &str) -> usize {
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    if path.starts_with('/') {
        return 0;
    }
    path.split('/').filter(|part| !part.is_empty()).count()
}

fn is_within(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !parts.any(|part| part == Component::ParentDir)
}
