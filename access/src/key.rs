//! API keys: their text, and the digest under which they are stored.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Bytes of a key's random secret.
const SECRET: usize = 32;

/// Bytes of a key's id.
const ID: usize = 8;

/// Public id of a key, by which it is found and revoked: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u64);

/// SHA-256 of a key's whole text.
///
/// A fast hash is right for a secret of 256 random bits: no attacker can try enough of them, however fast the hash is.
/// Slow hashes protect passwords, which can be guessed, and with them each request with a bad key would cost the
/// gateway milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest([u8; 32]);

/// A key that was just made. The text is shown once and stored nowhere.
pub struct NewKey {
    /// The id by which the key is found.
    pub id: KeyId,
    /// The text that the client sends.
    pub text: String,
    /// The digest to store.
    pub digest: KeyDigest,
}

impl NewKey {
    /// Number of random bytes that a key is made of.
    pub const RANDOM: usize = ID + SECRET;

    /// Creates the key `weir_<id>_<secret>` from bytes of a cryptographic random number generator.
    #[must_use]
    pub fn from_random(random: [u8; Self::RANDOM]) -> Self {
        let (id, secret) = random.split_at(ID);
        let id = KeyId(id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte)));
        let text = format!("{}{id}_{}", KeyId::PREFIX, hexadecimal(secret));
        let digest = KeyDigest::of(&text);
        Self { id, text, digest }
    }
}

impl KeyId {
    /// Beginning of every key, by which people and scanners of secrets recognise one.
    pub const PREFIX: &'static str = "weir_";

    /// Returns the id in the text of a key; `None` for text that is not a key.
    #[must_use]
    pub fn in_key(text: &str) -> Option<Self> {
        parts(text).map(|(id, _)| id)
    }
}

/// Returns the id and the secret in the text of a key; `None` for text that is not a key.
pub(crate) fn parts(text: &str) -> Option<(KeyId, &str)> {
    let (id, secret) = text.strip_prefix(KeyId::PREFIX)?.split_at_checked(2 * ID)?;
    // The digits of the secret are not checked here, which would cost time for each request: a wrong secret has
    // another digest.
    let secret = secret.strip_prefix('_').filter(|secret| secret.len() == 2 * SECRET)?;
    Some((id.parse().ok()?, secret))
}

impl FromStr for KeyId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digit = |id: u64, byte: u8| match byte {
            b'0'..=b'9' => Some(id << 4 | u64::from(byte - b'0')),
            b'a'..=b'f' => Some(id << 4 | u64::from(byte - b'a' + 10)),
            _ => None,
        };
        let id = if text.len() == 2 * ID { text.bytes().try_fold(0, digit) } else { None };
        id.map(Self).ok_or(())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl KeyDigest {
    /// Returns the digest of a key's text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Compares two digests in constant time.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl FromStr for KeyDigest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut digest = [0; 32];
        if text.len() != 64 || !text.bytes().all(is_digit) {
            return Err(());
        }
        for (at, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| ())?;
        }
        Ok(Self(digest))
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest")
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_id_and_a_stored_digest() {
        let key = NewKey::from_random(std::array::from_fn(|at| at as u8));
        assert_eq!(key.id.to_string(), "0001020304050607");
        assert!(key.text.starts_with("weir_0001020304050607_08090a"), "{}", key.text);
        assert_eq!(KeyId::in_key(&key.text), Some(key.id));
        let stored: KeyDigest = key.digest.to_string().parse().unwrap();
        assert!(stored.is(&KeyDigest::of(&key.text)));
        assert!(!stored.is(&KeyDigest::of(&key.text.replace("08", "09"))));
        let shown = format!("{key:?}");
        assert!(!shown.contains("08090a"), "{shown}");
    }

    #[test]
    fn other_text_is_no_key() {
        let key = NewKey::from_random([7; NewKey::RANDOM]).text;
        for text in ["", "weir_", "weir__", &key[1..], &key[..key.len() - 1], &key.to_uppercase()] {
            assert_eq!(KeyId::in_key(text), None, "{text}");
        }
        assert_eq!(KeyId::in_key(&format!("{key}0")), None);
        assert_eq!(KeyId::in_key(&key.replacen("07", "+7", 1)), None);
    }
}
