//! Content of the Secret that all processes of a port share: the pair in use and its successor. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};

use crate::certificate::{Purpose, ServingPair};

/// The Secret's entry with all pairs.
const ENTRY: &str = "pairs.json";

/// Entries with certificate, key and authorities in PEM, as in Secrets of type `kubernetes.io/tls`. Readers of a Secret
/// of peers use these.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";

/// The pair in use, its successor, and the authority of its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pairs {
    /// The pair in use.
    pub(crate) current: ServingPair,
    /// The next pair, used once its authority is trusted; None until a successor is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<ServingPair>,
    /// Authority of the previous pair, with which another process may still serve; None if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former_authority: Option<String>,
}

impl Pairs {
    pub(crate) fn of(current: ServingPair) -> Self {
        Self { current, next: None, former_authority: None }
    }

    /// Returns the authorities to trust, in PEM.
    pub(crate) fn bundle(&self) -> String {
        let former = self.former_authority.iter();
        let next = self.next.iter().map(|next| &next.authority);
        let all = former.chain([&self.current.authority]).chain(next);
        all.map(String::as_str).collect()
    }

    /// Adds the next pair. The former authority is dropped: it has been out of use for most of a certificate's
    /// lifetime.
    pub(crate) fn with_next(self, next: ServingPair) -> Self {
        Self { current: self.current, next: Some(next), former_authority: None }
    }

    /// Makes the next pair the current one.
    pub(crate) fn switched(self) -> Self {
        match self.next {
            Some(next) => Self { former_authority: Some(self.current.authority), current: next, next: None },
            None => self,
        }
    }

    /// Reads the pairs from a Secret; `None` if there are none or they cannot be parsed.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let entry = secret.data.as_ref()?.get(ENTRY)?;
        serde_json::from_slice(&entry.0).ok()
    }

    /// Returns the data of the Secret with these pairs. One write changes all entries at once.
    pub(crate) fn data(&self, purpose: Purpose) -> Result<BTreeMap<String, ByteString>, serde_json::Error> {
        let mut entries = BTreeMap::from([(ENTRY, serde_json::to_vec(self)?)]);
        if purpose == Purpose::Peer {
            entries.insert(CERTIFICATE, self.current.certificate.clone().into_bytes());
            entries.insert(KEY, self.current.key.clone().into_bytes());
            entries.insert(AUTHORITIES, self.bundle().into_bytes());
        }
        let named = entries.into_iter().map(|(name, content)| (name.to_owned(), ByteString(content)));
        Ok(named.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pairs_survive_storage_and_a_broken_entry_is_ignored() {
        let made = |begins| ServingPair::make(Purpose::Server, &["a".to_owned()], begins, Duration::from_secs(9));
        let pairs = Pairs::of(made(1).unwrap()).with_next(made(7).unwrap());
        let mut secret = Secret { data: Some(pairs.data(Purpose::Server).unwrap()), ..Secret::default() };
        assert_eq!(Pairs::read(&secret).as_ref(), Some(&pairs));
        assert_eq!(pairs.bundle().matches("BEGIN CERTIFICATE").count(), 2);
        let bundle = pairs.bundle();
        assert_eq!(pairs.switched().bundle(), bundle);
        secret.data.get_or_insert_default().insert(ENTRY.to_owned(), ByteString(b"{".to_vec()));
        assert_eq!(Pairs::read(&secret), None);
        assert_eq!(Pairs::read(&Secret::default()), None);
    }

    #[test]
    fn readers_of_a_secret_of_peers_find_the_current_pair_and_all_authorities() {
        let made = |begins| ServingPair::make(Purpose::Peer, &["a".to_owned()], begins, Duration::from_secs(9));
        let (first, second) = (made(1).unwrap(), made(7).unwrap());
        let entry = |pairs: &Pairs, name: &str| {
            let data = pairs.data(Purpose::Peer).unwrap();
            String::from_utf8(data[name].0.clone()).unwrap()
        };
        let pairs = Pairs::of(first.clone()).with_next(second.clone());
        assert_eq!(entry(&pairs, CERTIFICATE), first.certificate);
        assert_eq!(entry(&pairs, AUTHORITIES), format!("{}{}", first.authority, second.authority));
        let pairs = pairs.switched();
        assert_eq!(entry(&pairs, CERTIFICATE), second.certificate);
        assert_eq!(entry(&pairs, KEY), second.key);
        assert_eq!(entry(&pairs, AUTHORITIES), format!("{}{}", first.authority, second.authority));
        assert_eq!(pairs.data(Purpose::Server).unwrap().keys().collect::<Vec<_>>(), [ENTRY]);
    }
}
