//! Identities of clients, by which a gateway counts what they hold.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Identity of a client: a hash of its name, with a key of this process, so that no client can choose a name with another
/// one's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// Hash function of this process for names of clients.
static NAMES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl ClientId {
    /// Identity of all clients without a name together.
    pub const ANONYMOUS: Self = Self(0);

    /// Returns the identity of a client with this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(NAMES.hash_one(name).max(1))
    }

    /// Returns the identity as a number, which is spread evenly.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_identity_and_none_is_that_of_anonymous_clients() {
        assert_eq!(ClientId::of("a"), ClientId::of("a"));
        assert_ne!(ClientId::of("a"), ClientId::of("b"));
        assert_ne!(ClientId::of(""), ClientId::ANONYMOUS);
    }
}
