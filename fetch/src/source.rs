//! Parses the URI of a fetch.

mod bucket;
mod http;
mod hub;
mod located;
mod registry;
#[cfg(test)]
pub(crate) mod test_server;

pub(crate) use self::bucket::{AZURE_BLOB, BucketSource, BucketStore};
pub(crate) use self::http::{HttpSource, HttpStore};
pub(crate) use self::hub::{Address, Hub};
pub(crate) use self::registry::{Reference, Registry};
use crate::archive::packing::Packing;
use crate::error::FetchError;
use crate::shown_uri::without_secrets;

/// Schemes of URIs that are fetched.
const REMOTE: [&str; 7] = ["http", "https", "s3", "gs", "hf", "oci", "oci+fetch"];

/// Returns true if [`fetch`](crate::fetch()) supports the scheme of the URI.
#[must_use]
pub fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| REMOTE.contains(&scheme))
}

/// Returns true if KServe fetches the scheme of the URI, and [`fetch`](crate::fetch()) does not.
#[must_use]
pub fn is_unsupported(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| UNSUPPORTED.contains(&scheme))
}

/// Checks, without sending a request, that [`fetch`](crate::fetch()) can use a URI.
///
/// # Errors
/// [`FetchError::Address`] with the rule that the URI breaks.
pub fn check_uri(uri: &str) -> Result<(), FetchError> {
    Source::parse(uri).map(|_| ())
}

/// Returns the name of the file that a fetch of `uri` leaves in its target; `None` for an archive, whose entries are
/// unpacked instead.
#[must_use]
pub fn plain_file(uri: &str) -> Option<String> {
    match Source::parse(uri).ok()? {
        Source::Http(source) => (source.packing() == Packing::None).then(|| source.file_name().to_owned()),
        // Only the bucket knows if the URI is one object.
        Source::Bucket(_) | Source::Hub(_) | Source::Registry(_) => None,
    }
}

/// A source of objects, parsed from a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// One file of a web server.
    Http(HttpSource),
    /// Objects of a bucket.
    Bucket(BucketSource),
    /// A model on the Hugging Face Hub.
    Hub(Address),
    /// An image or artifact in a registry.
    Registry(Reference),
}

/// Schemes of KServe that Weir does not fetch.
const UNSUPPORTED: [&str; 5] = ["hdfs", "webhdfs", "git", "ms", "modelscope"];

impl Source {
    pub(crate) fn parse(uri: &str) -> Result<Self, FetchError> {
        let invalid = |reason: String| FetchError::Address { uri: without_secrets(uri), reason };
        let scheme = uri.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "http" | "https" => match BucketSource::parse_azure(uri) {
                Some(azure) => azure.map(Self::Bucket).map_err(invalid),
                None => HttpSource::parse(uri).map(Self::Http).map_err(invalid),
            },
            "s3" | "gs" => BucketSource::parse(uri).map(Self::Bucket).map_err(invalid),
            "hf" => Address::parse(uri).map(Self::Hub).map_err(|rule| invalid(rule.to_owned())),
            "oci" | "oci+fetch" => Reference::parse(uri).map(Self::Registry).map_err(|rule| invalid(rule.to_owned())),
            "oci+native" => Err(invalid("image volumes are a feature of Kubernetes; use oci:// instead".to_owned())),
            known if is_unsupported(uri) => {
                Err(invalid(format!("{known}:// is not supported; copy the files to a bucket or a volume")))
            }
            _ => Err(invalid(
                "the scheme is not supported; use s3://, gs://, hf://, oci://, https:// or http://".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for refused in [
            "https://me:secret@a/",
            "https://a/models/?signature=secret",
            "https://me:secret@a:port/model.pt",
            "https://a/model.pt?x=secret#sha256:short",
            "ftp://me:secret@a/model.pt",
            "HTTPS://me:se@cret@a/model@1.pt",
        ] {
            let error = Source::parse(refused).unwrap_err().to_string();
            assert!(!error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for uri in ["ftp://a/b", "hdfs://a/b", "s3://", "http://", "http://a/", "http://a", "http://a/x%2f..", "/a"] {
            assert!(Source::parse(uri).is_err(), "{uri}");
        }
    }
}
