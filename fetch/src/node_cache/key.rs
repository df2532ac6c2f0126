//! The key of an entry: a digest of what a source has listed.

use std::fmt;

use crate::digest::Digest;
use crate::store::Object;

/// Form of the entries. Another form of the key or of the unpacked files needs another word here.
const FORM: &str = "weir-model-cache/1";

/// The key of an entry: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(String);

impl EntryKey {
    /// Parses a key. Returns `None` for anything but 64 lowercase hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Digest::of_hex(text).filter(|digest| digest.hex() == text).map(|digest| Self(digest.hex().to_owned()))
    }

    /// Returns the 64 digits of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of the files that a fetch of these objects has. Objects of other versions have another key.
    /// Returns `None` if there are no objects, or if the source says neither version nor digest of one of them.
    pub(crate) fn of(uri: &str, objects: &[Object]) -> Option<Self> {
        if objects.is_empty() || objects.iter().any(|object| object.version.is_none() && object.digest.is_none()) {
            return None;
        }
        let mut sorted: Vec<_> = objects.iter().collect();
        sorted.sort_by(|a, b| a.path.cmp(&b.path).then_with(|| a.key.cmp(&b.key)));
        let mut text = Vec::new();
        add(&mut text, FORM);
        add(&mut text, uri);
        for object in sorted {
            add(&mut text, object.path.as_str());
            add(&mut text, &object.key);
            add(&mut text, &object.size.map(|size| size.to_string()).unwrap_or_default());
            add(&mut text, object.version.as_deref().unwrap_or_default());
            add(&mut text, object.digest.as_ref().map(Digest::hex).unwrap_or_default());
            add(&mut text, &format!("{:?}", object.packing));
        }
        Some(Self(Digest::of(&text).hex().to_owned()))
    }
}

impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds a field with its length, so that no two lists of fields give the same text.
fn add(text: &mut Vec<u8>, field: &str) {
    text.extend_from_slice(&(field.len() as u64).to_le_bytes());
    text.extend_from_slice(field.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::packing::Packing;
    use crate::store::RelativePath;

    fn object(path: &str, version: Option<&str>) -> Object {
        Object {
            path: RelativePath::parse(path).unwrap(),
            key: path.to_owned(),
            size: Some(7),
            version: version.map(str::to_owned),
            digest: None,
            packing: Packing::None,
        }
    }

    #[test]
    fn the_key_depends_on_uri_names_and_versions() {
        let of = |uri: &str, objects: &[Object]| EntryKey::of(uri, objects).unwrap();
        let (a, b) = (object("a", Some("1")), object("b", Some("1")));
        let both = of("s3://m", &[a.clone(), b.clone()]);
        assert_eq!(both, of("s3://m", &[b.clone(), a.clone()]));
        let others = [
            of("s3://n", &[a.clone(), b.clone()]),
            of("s3://m", std::slice::from_ref(&a)),
            of("s3://m", &[a.clone(), object("b", Some("2"))]),
            of("s3://m", &[a.clone(), Object { size: Some(8), ..b.clone() }]),
            of("s3://m", &[a.clone(), Object { packing: Packing::Zip, ..b.clone() }]),
            of("s3://m", &[a, Object { key: "c".to_owned(), ..b }]),
        ];
        assert!(others.iter().all(|other| *other != both));
    }

    #[test]
    fn objects_without_a_validator_have_no_key() {
        assert_eq!(EntryKey::of("http://a/b", &[]), None);
        assert_eq!(EntryKey::of("http://a/b", &[object("a", Some("1")), object("b", None)]), None);
        let digest = Digest::of_hex(&"0".repeat(64));
        assert!(EntryKey::of("http://a/b", &[Object { digest, ..object("b", None) }]).is_some());
    }

    #[test]
    fn a_key_is_64_lowercase_digits() {
        let key = EntryKey::of("s3://m", &[object("a", Some("1"))]).unwrap();
        assert_eq!(EntryKey::parse(key.as_str()), Some(key));
        for other in ["", "..", &"A".repeat(64), &"g".repeat(64), &"0".repeat(63), &"0".repeat(65)] {
            assert_eq!(EntryKey::parse(other), None, "{other}");
        }
    }
}
