//! The Secret that all processes of a port share: the pair in use, and the one that follows. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};

use crate::certificate::ServingPair;

/// The one entry: all changes in one write.
const ENTRY: &str = "pairs.json";

/// The pair in use and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pairs {
    /// The pair in use.
    pub(crate) current: ServingPair,
    /// The pair that follows once the API server knows its authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<ServingPair>,
    /// Authority of the pair before: another process may still serve with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former_authority: Option<String>,
}

impl Pairs {
    pub(crate) fn of(current: ServingPair) -> Self {
        Self { current, next: None, former_authority: None }
    }

    /// Authorities that the API server has to trust, in PEM.
    pub(crate) fn bundle(&self) -> String {
        let former = self.former_authority.iter();
        let next = self.next.iter().map(|next| &next.authority);
        let all = former.chain([&self.current.authority]).chain(next);
        all.map(String::as_str).collect()
    }

    /// Makes the next pair known. The authority before the current one has been out of use for most of a life.
    pub(crate) fn with_next(self, next: ServingPair) -> Self {
        Self { current: self.current, next: Some(next), former_authority: None }
    }

    /// Puts the next pair to use.
    pub(crate) fn switched(self) -> Self {
        match self.next {
            Some(next) => Self { former_authority: Some(self.current.authority), current: next, next: None },
            None => self,
        }
    }

    /// Reads the pairs of a Secret; `None` where it has none, or what cannot be read.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let entry = secret.data.as_ref()?.get(ENTRY)?;
        serde_json::from_slice(&entry.0).ok()
    }

    /// The Secret with these pairs.
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
    fn a_secret_keeps_the_pairs_and_is_no_pair_when_it_is_broken() {
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
