//! Content of the Secret that all processes of a port share: the pair in use and its successor. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};

use crate::certificate::ServingPair;

/// The Secret's only entry, so that one write changes everything at once.
const ENTRY: &str = "pairs.json";

/// The pair in use, its successor, and the authority of its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pairs {
    /// The pair in use.
    pub(crate) current: ServingPair,
    /// The next pair, used once API servers trust its authority; None until a successor is due.
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

    /// Returns the authorities that API servers have to trust, in PEM.
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

    /// Returns the Secret with these pairs as its data.
    pub(crate) fn write(&self, mut secret: Secret) -> Result<Secret, serde_json::Error> {
        let text = serde_json::to_vec(self)?;
        let entry = (ENTRY.to_owned(), ByteString(text));
        secret.data = Some(BTreeMap::from([entry]));
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pairs_survive_storage_and_a_broken_entry_is_ignored() {
        let made = |begins| ServingPair::make(&["a".to_owned()], begins, Duration::from_secs(9));
        let pairs = Pairs::of(made(1).unwrap()).with_next(made(7).unwrap());
        let mut secret = pairs.write(Secret::default()).unwrap();
        assert_eq!(Pairs::read(&secret).as_ref(), Some(&pairs));
        assert_eq!(pairs.bundle().matches("BEGIN CERTIFICATE").count(), 2);
        let bundle = pairs.bundle();
        assert_eq!(pairs.switched().bundle(), bundle);
        secret.data.get_or_insert_default().insert(ENTRY.to_owned(), ByteString(b"{".to_vec()));
        assert_eq!(Pairs::read(&secret), None);
        assert_eq!(Pairs::read(&Secret::default()), None);
    }
}
