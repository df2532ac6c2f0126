//! What an address names.

use reqwest::Url;

use crate::FetchError;

/// Whether an address is one that [`fetch`](crate::fetch) takes: `http://` or `https://`.
#[must_use]
pub fn is_remote(uri: &str) -> bool {
    uri.starts_with("http://") || uri.starts_with("https://")
}

/// Something to download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) url: Url,
    pub(crate) packing: Packing,
    /// The last part of its path.
    pub(crate) file_name: String,
}

/// How it is packed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// `.zip`
    Zip,
    /// `.tar`
    Tar,
    /// `.tar.gz`, `.tgz`
    TarGz,
    /// Anything else is the model itself.
    None,
}

impl Source {
    pub(crate) fn parse(uri: &str) -> Result<Self, FetchError> {
        let fault = |because: &str| FetchError::Address {
            uri: uri.to_owned(),
            because: because.to_owned(),
        };
        if !is_remote(uri) {
            return Err(fault("it is no http:// or https:// address"));
        }
        let url = Url::parse(uri).map_err(|error| fault(&error.to_string()))?;
        let segments = url.path_segments().into_iter().flatten();
        let file_name = segments.last().unwrap_or_default().to_owned();
        if file_name.is_empty() || file_name.contains('%') {
            return Err(fault("its path does not end with a plain file name"));
        }
        Ok(Self {
            packing: Packing::of(&file_name),
            file_name,
            url,
        })
    }

    /// The address without what may be secret.
    pub(crate) fn shown(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Fails only for addresses that cannot have any.
        let _ = url.set_password(None);
        let _ = url.set_username("");
        url.into()
    }
}

impl Packing {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        match () {
            () if ends(&[".zip"]) => Self::Zip,
            () if ends(&[".tar"]) => Self::Tar,
            () if ends(&[".tar.gz", ".tgz"]) => Self::TarGz,
            () => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_follows_the_name() {
        let packing = |uri: &str| Source::parse(uri).unwrap().packing;
        assert_eq!(packing("https://a/b/model.ZIP?x=.tar"), Packing::Zip);
        assert_eq!(packing("http://a/model.tar.gz"), Packing::TarGz);
        assert_eq!(packing("http://a/model.tgz"), Packing::TarGz);
        assert_eq!(packing("http://a/model.tar"), Packing::Tar);
        assert_eq!(packing("http://a/model.pt"), Packing::None);
    }

    #[test]
    fn secrets_are_not_shown() {
        let source = Source::parse("https://me:secret@a/model.pt?signature=1#x").unwrap();
        assert_eq!(source.shown(), "https://a/model.pt");
    }

    #[test]
    fn other_addresses_are_refused() {
        for uri in [
            "s3://a/b",
            "http://",
            "http://a/",
            "http://a",
            "http://a/x%2f..",
            "/a",
        ] {
            assert!(Source::parse(uri).is_err(), "{uri}");
        }
    }
}
