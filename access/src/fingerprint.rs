//! Fingerprints of credentials that were verified before.

use subtle::ConstantTimeEq;

/// Keyed hash of a credential, by which a process recognises one that it has verified. The hash has a
/// secret key of the process, so that no client can choose a text with the fingerprint of another one. It costs less
/// than SHA-256 and, unlike a digest in a file, says nothing about the text after the process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; Self::BYTES]);

impl Fingerprint {
    /// Size of a fingerprint in bytes.
    pub const BYTES: usize = 16;

    /// Creates a fingerprint from the result of a keyed hash function.
    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Compares two fingerprints in constant time.
    #[must_use]
    pub(crate) fn is(&self, other: &Self) -> bool {
        // One comparison of a number costs less than one of each byte.
        u128::from_ne_bytes(self.0).ct_eq(&u128::from_ne_bytes(other.0)).into()
    }

    /// Returns the bytes of the fingerprint, which are spread evenly.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}
