//! Keyed hashes by which this process recognises credentials that it has verified.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use smallvec::SmallVec;
use weir_access::Fingerprint;

/// Length in bytes of most credentials, which are copied without an allocation.
const USUAL: usize = 1024;

/// Computes fingerprints: the tags of AES-GCM over a text as the message, with a random key of this process. They cost
/// a fraction of SHA-256.
///
/// One nonce for all texts is safe, because neither the tag nor the encrypted text leaves the process. The encrypted text
/// is the text XOR a constant, and the tag is its GHASH, a universal hash function, plus a constant: two different texts of
/// up to 8 KiB have the same one with a probability below 2^-118 (McGrew and Viega, 2004, section 5), whatever texts are
/// chosen. ring authenticates a message many blocks at a time, and additional data block by block.
#[derive(Debug)]
pub struct Fingerprints(Option<LessSafeKey>);

impl Default for Fingerprints {
    fn default() -> Self {
        let mut key = [0; 16];
        let filled = SystemRandom::new().fill(&mut key);
        let key = filled.and_then(|()| UnboundKey::new(&AES_128_GCM, &key));
        Self(key.ok().map(LessSafeKey::new))
    }
}

impl Fingerprints {
    /// Returns the fingerprint of a text; `None` if the system gave no random key, so that nothing is remembered.
    #[must_use]
    pub fn of(&self, text: &str) -> Option<Fingerprint> {
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let mut message: SmallVec<[u8; USUAL]> = SmallVec::from_slice(text.as_bytes());
        let tag = self.0.as_ref()?.seal_in_place_separate_tag(nonce, Aad::empty(), &mut message);
        Some(Fingerprint::new(tag.ok()?.as_ref().try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_text_has_its_own_fingerprint_in_each_process() {
        let (one, other) = (Fingerprints::default(), Fingerprints::default());
        let texts: Vec<String> = (0..100).map(|length| "a".repeat(length)).collect();
        let prints: HashSet<_> = texts.iter().flat_map(|text| [one.of(text), other.of(text)]).collect();
        assert_eq!(prints.len(), 200);
        assert!(prints.iter().all(Option::is_some));
        assert_eq!(one.of("a"), one.of("a"));
    }
}
