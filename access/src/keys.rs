//! The table of all API keys.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use subtle::ConstantTimeEq;

use crate::caller::Caller;
use crate::key::{self, KeyDigest, KeyId};

/// All API keys, by id. A key takes about 80 bytes; keys of one client share its name.
#[derive(Default)]
pub struct Keys {
    by_id: HashMap<KeyId, StoredKey, RandomState>,
    /// Callers that keys have in common.
    callers: HashSet<Arc<Caller>>,
    /// Clients that have keys.
    clients: HashSet<Arc<str>, RandomState>,
}

struct StoredKey {
    digest: KeyDigest,
    /// Seconds since 1970 from which the key is refused; [`NEVER`] for a key that does not expire.
    expires: u64,
    caller: Arc<Caller>,
    /// Fingerprint of the key's secret; set by the first request with the right one.
    verified: OnceLock<Fingerprint>,
}

/// Time from which a key without an end is refused.
const NEVER: u64 = u64::MAX;

/// Reason why a key is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text does not have the form of a key.
    #[error("it is not a key")]
    Malformed,
    /// No key has this id: it was revoked, or never existed.
    #[error("no key has its id")]
    Unknown,
    /// A key has this id, but another secret.
    #[error("its secret is wrong")]
    WrongSecret,
    /// The key expired. The client is known, because the secret is right.
    #[error("it expired")]
    Expired(Arc<Caller>),
}

impl Keys {
    /// Adds a key, which is refused from `expires` on, in seconds since 1970. Returns false if its id exists already.
    pub fn add(&mut self, id: KeyId, digest: KeyDigest, expires: Option<u64>, caller: Caller) -> bool {
        if self.by_id.contains_key(&id) {
            return false;
        }
        let caller = match self.callers.get(&caller) {
            Some(shared) => Arc::clone(shared),
            None => {
                let shared = Arc::new(caller);
                self.callers.insert(Arc::clone(&shared));
                shared
            }
        };
        self.clients.extend(caller.client().cloned());
        self.by_id.insert(id, StoredKey::new(digest, expires, caller));
        true
    }

    /// Returns the caller that has this key. `now` returns the time in seconds since 1970, and is called only for a key
    /// that expires. `fingerprint` returns the fingerprint of the key's secret, which is compared only with that of the
    /// key with the same id. If it returns `None`, each request costs the computation of a digest.
    ///
    /// # Errors
    /// A [`KeyError`] for text that is not a valid key at this time.
    pub fn caller(
        &self,
        text: &str,
        now: impl FnOnce() -> u64,
        fingerprint: impl FnOnce(&str) -> Option<Fingerprint>,
    ) -> Result<&Arc<Caller>, KeyError> {
        let (id, secret) = key::parts(text).ok_or(KeyError::Malformed)?;
        // The id is not a secret, so the duration may reveal that it exists.
        let stored = self.by_id.get(&id).ok_or(KeyError::Unknown)?;
        if !stored.is_key(text, fingerprint(secret)) {
            return Err(KeyError::WrongSecret);
        }
        if stored.expires != NEVER && now() >= stored.expires {
            return Err(KeyError::Expired(Arc::clone(&stored.caller)));
        }
        Ok(&stored.caller)
    }

    /// Iterates over the clients of all keys.
    pub fn client_names(&self) -> impl Iterator<Item = &str> {
        self.clients.iter().map(|name| &**name)
    }

    /// Returns true if some key has this client, so that neither a token nor a certificate can name it.
    #[must_use]
    pub fn have_client(&self, name: &str) -> bool {
        self.clients.contains(name)
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns true if there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl StoredKey {
    fn new(digest: KeyDigest, expires: Option<u64>, caller: Arc<Caller>) -> Self {
        Self { digest, expires: expires.unwrap_or(NEVER), caller, verified: OnceLock::new() }
    }

    /// Returns true if the text is the key, and remembers the fingerprint of the right secret. The text has the key's id.
    fn is_key(&self, text: &str, fingerprint: Option<Fingerprint>) -> bool {
        if let (Some(verified), Some(fingerprint)) = (self.verified.get(), fingerprint)
            && verified.is(&fingerprint)
        {
            return true;
        }
        let is_key = self.digest.is(&KeyDigest::of(text));
        if let (true, Some(fingerprint)) = (is_key, fingerprint) {
            // Another request may have set the same one at the same time.
            let _ = self.verified.set(fingerprint);
        }
        is_key
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("len", &self.len()).finish_non_exhaustive()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::NewKey;
    use crate::operation::Operations;

    fn print(byte: u8) -> Fingerprint {
        Fingerprint::new([byte; Fingerprint::BYTES])
    }

    #[test]
    fn a_wrong_secret_is_never_remembered() {
        let key = NewKey::from_random([1; NewKey::RANDOM]);
        let mut keys = Keys::default();
        keys.add(key.id, key.digest, None, Caller::named("a".into(), Vec::new(), Operations::ALL));
        let wrong = key.text.replace("_0101010101010101_01", "_0101010101010101_zz");
        for _ in 0..2 {
            assert_eq!(keys.caller(&wrong, || 0, |_| Some(print(1))), Err(KeyError::WrongSecret));
        }
        assert!(keys.caller(&key.text, || 0, |_| Some(print(2))).is_ok());
        assert_eq!(keys.caller(&wrong, || 0, |_| Some(print(1))), Err(KeyError::WrongSecret));
    }

    #[test]
    fn the_secret_of_another_key_is_never_accepted() {
        let all = [1, 2].map(|byte| NewKey::from_random([byte; NewKey::RANDOM]));
        let mut keys = Keys::default();
        for key in &all {
            keys.add(key.id, key.digest, None, Caller::named("a".into(), Vec::new(), Operations::ALL));
        }
        let caller = |text: &str| keys.caller(text, || 0, |secret| Some(print(secret.as_bytes()[1])));
        let secret = |key: &NewKey| key.text.rsplit('_').next().unwrap().to_owned();
        let mixed = all[0].text.replace(&secret(&all[0]), &secret(&all[1]));
        for _ in 0..2 {
            assert!(all.iter().all(|key| caller(&key.text).is_ok()));
            assert_eq!(caller(&mixed), Err(KeyError::WrongSecret));
        }
    }

    #[test]
    fn a_key_is_valid_until_it_expires() {
        let key = NewKey::from_random([1; NewKey::RANDOM]);
        let caller = Caller::named("a".into(), Vec::new(), Operations::ALL);
        let mut keys = Keys::default();
        assert!(keys.add(key.id, key.digest, Some(100), caller.clone()));
        assert!(!keys.add(key.id, key.digest, None, caller.clone()));
        // The second request with the same fingerprint is accepted by it alone, and still expires.
        for text in [&*key.text, &key.text] {
            assert_eq!(keys.caller(text, || 99, |_| Some(print(1))).map(|caller| &**caller), Ok(&caller));
            let expired = Err(KeyError::Expired(Arc::new(caller.clone())));
            assert_eq!(keys.caller(text, || 100, |_| Some(print(1))), expired);
            assert_eq!(keys.caller(text, || 99, |_| None).map(|caller| &**caller), Ok(&caller));
        }
        let wrong = key.text.replace("_0101010101010101_01", "_0101010101010101_02");
        assert_eq!(keys.caller(&wrong, || 0, |_| Some(print(2))), Err(KeyError::WrongSecret));
        assert_eq!(keys.caller(&wrong, || 0, |_| None), Err(KeyError::WrongSecret));
        let other = NewKey::from_random([2; NewKey::RANDOM]);
        assert_eq!(keys.caller(&other.text, || 0, |_| Some(print(1))), Err(KeyError::Unknown));
        assert_eq!(keys.caller("Bearer", || 0, |_| Some(print(1))), Err(KeyError::Malformed));
    }

    #[test]
    fn an_entry_is_small_enough_for_a_hundred_thousand_keys() {
        // A hash table has up to twice the slots that it needs, and one more byte for each.
        let slot = size_of::<(KeyId, StoredKey)>() + 1;
        assert!(2 * 100_000 * slot <= 20 << 20, "{slot} bytes");
    }
}
