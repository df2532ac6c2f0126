//! The keys of one issuer, a JSON Web Key Set (RFC 7517).

use std::sync::Arc;

use serde::Deserialize;

use crate::algorithm::Algorithm;
use crate::error::KeySetError;
use crate::key::{Key, KeyFields};

/// Maximum number of keys in a set. Issuers have two to ten.
const MAX_KEYS: usize = 100;

/// Maximum number of keys that are tried for a token that names none, because each costs a verification.
const MAX_TRIES: usize = 4;

/// Keys of one issuer that verify signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet {
    keys: Vec<Arc<Key>>,
}

/// Keys that may have signed a token.
#[derive(Debug)]
pub(crate) enum Candidates<'a> {
    /// The token names these keys.
    Named(Vec<&'a Arc<Key>>),
    /// The token or the keys have no name, so that each key has to be tried.
    Unnamed(Vec<&'a Arc<Key>>),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Reads a set in JSON. Keys of unknown types, keys for encryption and keys of algorithms that Weir does not accept
    /// are ignored, as RFC 7517, section 5, recommends.
    ///
    /// # Errors
    /// [`KeySetError`] if the document is not a key set, has too many keys, or none that can be used.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let document: Document = serde_json::from_slice(json).map_err(|_| KeySetError::Malformed)?;
        if document.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany(MAX_KEYS));
        }
        let fields = document.keys.into_iter().filter_map(|key| serde_json::from_value::<KeyFields>(key).ok());
        let keys: Vec<_> = fields.filter_map(Key::new).map(Arc::new).collect();
        if keys.is_empty() {
            return Err(KeySetError::Empty);
        }
        Ok(Self { keys })
    }

    /// Returns this set, in which each key that the older set also contains is the object of the older set. The cache
    /// refers to these objects, so tokens that they verified stay in it.
    pub(crate) fn keeping(self, older: &Self) -> Self {
        let kept = |key: Arc<Key>| older.keys.iter().find(|old| **old == key).map_or(key, Arc::clone);
        Self { keys: self.keys.into_iter().map(kept).collect() }
    }

    /// Returns the keys that may have signed a token with this key name and algorithm.
    pub(crate) fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> Candidates<'_> {
        let fitting = || self.keys.iter().filter(|key| key.fits(algorithm));
        let Some(id) = id else {
            return Candidates::Unnamed(fitting().take(MAX_TRIES).collect());
        };
        // A key with the right name but the wrong type verifies nothing. No other key is tried, so the token is
        // refused.
        if self.keys.iter().any(|key| key.id.as_deref() == Some(id)) {
            return Candidates::Named(fitting().filter(|key| key.id.as_deref() == Some(id)).take(MAX_TRIES).collect());
        }
        Candidates::Unnamed(fitting().filter(|key| key.id.is_none()).take(MAX_TRIES).collect())
    }

    /// Returns the number of keys in the set.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}
