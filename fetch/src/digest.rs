//! The digest that a downloaded file must have.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::FetchError;

/// A SHA-256 digest in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest(String);

/// Prefix of a digest in a URI's fragment.
const ALGORITHM: &str = "sha256:";

/// Number of hexadecimal digits in a digest.
const DIGITS: usize = 64;

impl Digest {
    /// Returns the digest in a URI's fragment; `None` if the fragment does not begin with `sha256:`.
    ///
    /// # Errors
    /// Fails if `sha256:` is not followed by 64 hexadecimal digits.
    pub(crate) fn of_fragment(fragment: &str) -> Result<Option<Self>, ()> {
        let Some(digits) = fragment.strip_prefix(ALGORITHM) else {
            return Ok(None);
        };
        Self::of_hex(digits).map(Some).ok_or(())
    }

    /// Returns the digest with these hexadecimal digits; `None` if they are not 64.
    pub(crate) fn of_hex(digits: &str) -> Option<Self> {
        let is_valid = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_valid.then(|| Self(digits.to_ascii_lowercase()))
    }

    /// Returns the digest of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(hex(&Sha256::digest(bytes)))
    }

    /// Returns the hexadecimal digits.
    pub(crate) fn hex(&self) -> &str {
        &self.0
    }

    /// Checks that a file has this digest.
    ///
    /// # Errors
    /// [`FetchError::Digest`] if the file has another digest, [`FetchError::File`] if it cannot be read.
    pub(crate) fn check(&self, path: &Path, uri: &str) -> Result<(), FetchError> {
        let found = of_file(path).map_err(FetchError::file(path))?;
        if found == self.0 {
            return Ok(());
        }
        Err(FetchError::Digest { uri: uri.to_owned(), expected: self.0.clone(), found })
    }
}

fn of_file(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    Ok(hex(&hash.finalize()))
}

/// Returns bytes in hexadecimal digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
