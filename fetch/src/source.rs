//! Parses the URI of a fetch.

mod bucket;
mod http;
mod hub;
mod located;
mod registry;
#[cfg(test)]
mod test_server;

pub(crate) use self::bucket::{BucketSource, BucketStore};
pub(crate) use self::http::{HttpSource, HttpStore};
pub(crate) use self::hub::{Address, Hub};
pub(crate) use self::registry::{Reference, Registry};
use crate::error::FetchError;

/// Schemes of URIs that are fetched.
const REMOTE: [&str; 7] = ["http", "https", "s3", "gs", "hf", "oci", "oci+fetch"];

/// Returns true if [`fetch`](crate::fetch()) supports the scheme of the URI.
#[must_use]
pub fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| REMOTE.contains(&scheme))
}

/// Checks, without sending a request, that [`fetch`](crate::fetch()) can use a URI.
///
/// # Errors
/// [`FetchError::Address`] with the rule that the URI breaks.
pub fn check_uri(uri: &str) -> Result<(), FetchError> {
    Source::parse(uri).map(|_| ())
}

/// Returns a URI without its credentials, query and fragment, which may be secret, for messages. Accepts any text, even
/// if it is not a URI that can be fetched.
#[must_use]
pub fn without_secrets(uri: &str) -> String {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let (plain, _) = uri.split_at(end);
    let Some((scheme, rest)) = plain.split_once("://") else {
        return plain.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
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

/// A parsed URI.
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

/// Packing of a file, as given by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// An archive named `.zip`.
    Zip,
    /// An archive named `.tar`.
    Tar,
    /// An archive named `.tar.gz` or `.tgz`.
    TarGz,
    /// A layer of an image. The layers are unpacked together, in their order.
    Layer(Compression),
    /// Any other file, which is the model itself.
    None,
}

/// Schemes of KServe that Weir does not fetch.
const UNSUPPORTED: [&str; 5] = ["hdfs", "webhdfs", "git", "ms", "modelscope"];

/// Compression of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// A tar archive as it is.
    None,
    /// A tar archive compressed by gzip.
    Gzip,
}

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
            known if UNSUPPORTED.contains(&known) => {
                Err(invalid(format!("{known}:// is not supported; copy the files to a bucket or a volume")))
            }
            _ => Err(invalid(
                "the scheme is not supported; use s3://, gs://, hf://, oci://, https:// or http://".to_owned(),
            )),
        }
    }
}

impl Packing {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if name.ends_with(".zip") {
            Self::Zip
        } else if name.ends_with(".tar") {
            Self::Tar
        } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Self::TarGz
        } else {
            Self::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_follows_the_name() {
        let packing = |uri: &str| HttpSource::parse(uri).unwrap().packing();
        assert_eq!(packing("https://a/b/model.ZIP?x=.tar"), Packing::Zip);
        assert_eq!(packing("http://a/model.tar.gz"), Packing::TarGz);
        assert_eq!(packing("http://a/model.tgz"), Packing::TarGz);
        assert_eq!(packing("http://a/model.tar"), Packing::Tar);
        assert_eq!(packing("http://a/model.pt"), Packing::None);
    }

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
    fn uris_without_secrets_are_shown_unchanged() {
        let shown = [
            ("https://me:secret@a:8/m@1/x.pt?y#z", "https://a:8/m@1/x.pt"),
            ("pvc://claim/path", "pvc://claim/path"),
            ("s3://key:secret@bucket", "s3://bucket"),
            ("models/digits", "models/digits"),
            ("", ""),
        ];
        for (uri, expected) in shown {
            assert_eq!(without_secrets(uri), expected);
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for uri in ["ftp://a/b", "hdfs://a/b", "s3://", "http://", "http://a/", "http://a", "http://a/x%2f..", "/a"] {
            assert!(Source::parse(uri).is_err(), "{uri}");
        }
    }
}
