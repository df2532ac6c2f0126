//! Tokens that were verified, so that the next request with the same token costs a keyed hash and a lookup.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use weir_access::Fingerprint;

use crate::identity::TokenIdentity;
use crate::key::Key;

/// Number of independently locked parts of the cache.
const SHARDS: usize = 16;

/// Maximum number of tokens in each of the two generations of a shard: 16 384 tokens altogether. With names and a few
/// roles they take about 8 MiB.
const GENERATION: usize = 512;

/// Maximum bytes of names and roles in a generation: 32 MiB altogether, even if each token has all roles that fit.
const GENERATION_BYTES: usize = 1 << 20;

/// A bounded cache, which keeps fingerprints and no tokens. A token is forgotten when it expires, and when its key
/// leaves the key set of its issuer: the entry refers to the key, and key sets own their keys.
#[derive(Debug, Default)]
pub(crate) struct VerifiedTokens {
    shards: [Mutex<Shard>; SHARDS],
}

/// Entries of a shard. When the recent generation is full, it becomes the older one, whose entries are dropped. An
/// entry that is used moves to the recent generation.
#[derive(Debug, Default)]
struct Shard {
    recent: HashMap<Fingerprint, Entry, RandomState>,
    recent_bytes: usize,
    older: HashMap<Fingerprint, Entry, RandomState>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Weak<Key>,
    identity: Arc<TokenIdentity>,
}

impl VerifiedTokens {
    /// Returns the client of a token that was verified and is still valid at `now`, in seconds since 1970.
    pub(crate) fn get(&self, hash: &Fingerprint, now: u64) -> Option<Arc<TokenIdentity>> {
        let mut shard = self.shard(hash).lock();
        let is_valid = |entry: &Entry| entry.key.strong_count() > 0 && !entry.identity.is_expired(now);
        if let Some(entry) = shard.recent.get(hash) {
            return is_valid(entry).then(|| Arc::clone(&entry.identity));
        }
        let entry = shard.older.remove(hash).filter(is_valid)?;
        let identity = Arc::clone(&entry.identity);
        shard.insert(*hash, entry);
        Some(identity)
    }

    /// Remembers a token that this key verified.
    pub(crate) fn insert(&self, hash: Fingerprint, key: &Arc<Key>, identity: &Arc<TokenIdentity>) {
        let entry = Entry { key: Arc::downgrade(key), identity: Arc::clone(identity) };
        self.shard(&hash).lock().insert(hash, entry);
    }

    fn shard(&self, hash: &Fingerprint) -> &Mutex<Shard> {
        &self.shards[usize::from(hash.bytes()[0]) % SHARDS]
    }
}

impl Shard {
    fn insert(&mut self, hash: Fingerprint, entry: Entry) {
        let bytes = size(&entry.identity);
        if self.recent.len() >= GENERATION || self.recent_bytes + bytes > GENERATION_BYTES {
            self.older = std::mem::take(&mut self.recent);
            self.recent_bytes = 0;
        }
        self.recent_bytes += bytes;
        self.recent.insert(hash, entry);
    }
}

/// Returns about how many bytes an identity takes: texts, and two pointers and two counters for each.
fn size(identity: &TokenIdentity) -> usize {
    let caller = &identity.caller;
    caller.roles().iter().chain(caller.client()).map(|text| text.len() + 32).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use weir_access::{Caller, Operations};

    use super::*;
    use crate::fingerprints::Fingerprints;
    use crate::key_set::{Candidates, KeySet};

    fn hash(token: &str) -> Fingerprint {
        static FINGERPRINTS: LazyLock<Fingerprints> = LazyLock::new(Fingerprints::default);
        FINGERPRINTS.of(token).unwrap()
    }

    fn key_set(x: u8) -> KeySet {
        let x = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, [x; 32]);
        KeySet::parse(format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#).as_bytes()).unwrap()
    }

    fn key(set: &KeySet) -> Arc<Key> {
        match set.candidates(None, crate::algorithm::Algorithm::Ed25519) {
            Candidates::Unnamed(keys) => Arc::clone(keys[0]),
            Candidates::Named(keys) => panic!("{keys:?}"),
        }
    }

    fn identity(name: &str) -> Arc<TokenIdentity> {
        let caller = Caller::named(name.into(), Vec::new(), Operations::ALL);
        Arc::new(TokenIdentity { caller: Arc::new(caller), expires: 1000 })
    }

    #[test]
    fn a_token_is_forgotten_when_it_expires_and_when_its_key_leaves() {
        let (cache, set) = (VerifiedTokens::default(), key_set(1));
        cache.insert(hash("a"), &key(&set), &identity("a"));
        assert_eq!(cache.get(&hash("a"), 1059), Some(identity("a")));
        assert_eq!(cache.get(&hash("b"), 0), None);
        assert_eq!(cache.get(&hash("a"), 1060), None);
        let same = key_set(1).keeping(&set);
        drop(set);
        assert_eq!(cache.get(&hash("a"), 0), Some(identity("a")));
        let other = key_set(2).keeping(&same);
        drop(same);
        assert_eq!(cache.get(&hash("a"), 0), None);
        drop(other);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let (cache, set) = (VerifiedTokens::default(), key_set(1));
        let key = key(&set);
        cache.insert(hash("used"), &key, &identity("used"));
        for number in 0..100_000 {
            cache.insert(hash(&number.to_string()), &key, &identity("x"));
            assert!(cache.get(&hash("used"), 0).is_some());
        }
        let entries = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.recent.len() + shard.older.len()
        };
        assert!(cache.shards.iter().map(entries).sum::<usize>() <= 2 * SHARDS * GENERATION);
    }
}
