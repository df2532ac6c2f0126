//! How several gateways share the credits of a revision's replicas.
//!
//! Each takes an even share of every replica. Where that would leave a gateway with less than two, a
//! request that waits at one could starve while another idles: then one gateway, which all agree on, has
//! all credits and the others hand over to it.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Fewer credits than this for each gateway, and one of them takes all.
const FEWEST: u32 = 2;

/// The gateways in front of one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// How many there are, at least one.
    of: u32,
    /// Which one this is, in their common order.
    me: u32,
    /// Which one owns the revision's queue where credits are few.
    owner: u32,
}

/// What a gateway may do with a revision's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Use its share of each replica.
    Sharer,
    /// Use all credits: the others hand over.
    Owner,
    /// Use none: hand over to the gateway of this index.
    Guest(u32),
}

impl Crowd {
    /// One gateway alone.
    pub(crate) const ALONE: Self = Self {
        of: 1,
        me: 0,
        owner: 0,
    };

    /// Those of these names, sorted, as `me` sees them; a gateway that is not yet among them counts as
    /// alone.
    pub(crate) fn new<'a>(
        names: impl Iterator<Item = &'a str> + Clone,
        me: &str,
        revision: &str,
    ) -> Self {
        let position = names.clone().position(|name| name == me);
        let owner = names.clone().enumerate();
        let owner = owner.max_by_key(|(_, name)| score(name, revision));
        match (position, owner) {
            (Some(me), Some((owner, _))) => Self {
                of: names.count() as u32,
                me: me as u32,
                owner: owner as u32,
            },
            (None, _) | (_, None) => Self::ALONE,
        }
    }

    /// What this gateway may do where all replicas together have so many credits.
    pub(crate) fn standing(self, credits: u32) -> Standing {
        if self.of == 1 || credits >= FEWEST.saturating_mul(self.of) {
            Standing::Sharer
        } else if self.me == self.owner {
            Standing::Owner
        } else {
            Standing::Guest(self.owner)
        }
    }

    /// Its share of one replica's credits. Where they do not divide, `turn`, which differs from replica
    /// to replica, says who gets the rest.
    pub(crate) fn share(self, credits: u32, turn: u32) -> u32 {
        let place = (self.me + turn % self.of) % self.of;
        credits / self.of + u32::from(place < credits % self.of)
    }
}

/// The same in every gateway of one build: the hasher has no seed.
fn score(gateway: &str, revision: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (gateway, revision).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crowd(of: u32, me: u32, revision: &str) -> Crowd {
        let names: Vec<String> = (0..of).map(|i| format!("gateway-{i}")).collect();
        let me = names[me as usize].clone();
        Crowd::new(names.iter().map(String::as_str), &me, revision)
    }

    proptest! {
        #[test]
        fn shares_add_up_to_all_credits(of in 1_u32..9, credits in 0_u32..100, turn: u32) {
            let shares = (0..of).map(|me| crowd(of, me, "r").share(credits, turn));
            prop_assert_eq!(shares.sum::<u32>(), credits);
        }

        #[test]
        fn exactly_one_owns_a_queue_of_few_credits(of in 1_u32..9, credits in 0_u32..40, revision in "[a-z]{3}") {
            let standing = |me| crowd(of, me, &revision).standing(credits);
            let owners: Vec<u32> = (0..of).filter(|me| standing(*me) == Standing::Owner).collect();
            for me in 0..of {
                match standing(me) {
                    Standing::Sharer => prop_assert!(of == 1 || credits >= 2 * of),
                    Standing::Owner => prop_assert_eq!(&owners, &[me]),
                    Standing::Guest(owner) => prop_assert_eq!(&owners, &[owner]),
                }
            }
        }

        #[test]
        fn a_gateway_that_leaves_takes_only_its_own_queues(of in 2_u32..9, revision in "[a-z]{3}") {
            let before = crowd(of, 0, &revision).owner;
            let after = crowd(of - 1, 0, &revision).owner;
            prop_assert!(before == after || before == of - 1);
        }
    }

    #[test]
    fn who_is_not_among_them_is_alone() {
        let others = ["a", "b"];
        let crowd = Crowd::new(others.iter().copied(), "c", "r");
        assert_eq!(crowd.standing(0), Standing::Sharer);
        assert_eq!(crowd.share(1, 7), 1);
    }
}
