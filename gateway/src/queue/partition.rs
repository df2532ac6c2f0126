//! How several gateways share the credits of a revision's replicas.
//!
//! Each takes an even share of every replica. Where that would leave a gateway with less than two, a
//! request that waits at one could starve while another idles: then one gateway, which all agree on, has
//! all credits and the others hand over to it. A gateway that is not among those that are up, because it
//! just came or is about to go, has none and hands over, too.

use super::fixed_hash;

/// Fewer credits than this for each gateway, and one of them takes all.
const FEWEST: u32 = 2;

/// The gateways in front of one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewaySet {
    /// How many there are, at least one.
    of: u32,
    /// Which one this is, in their common order; none when it is not among them.
    me: Option<u32>,
    /// Which one owns the revision's queue where credits are few.
    owner: u32,
}

/// Whether a gateway is among those that are up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// There are none at all.
    Unknown,
    /// Others are, and it is not.
    Absent,
    /// It is the only one.
    Alone,
    /// It is one of several.
    Among,
}

impl Membership {
    /// That of `me` among these.
    pub(crate) fn of<'a>(mut names: impl ExactSizeIterator<Item = &'a str>, me: &str) -> Self {
        let count = names.len();
        match (names.any(|name| name == me), count) {
            (false, 0) => Self::Unknown,
            (false, _) => Self::Absent,
            (true, 1) => Self::Alone,
            (true, _) => Self::Among,
        }
    }

    /// Whether it has just come in the place, or by the side, of others, who use its credits still.
    pub(crate) fn joins(self, before: Self) -> bool {
        match (before, self) {
            (Self::Absent, Self::Alone | Self::Among) | (Self::Unknown, Self::Among) => true,
            (Self::Unknown, Self::Alone)
            | (Self::Alone | Self::Among, Self::Alone | Self::Among)
            | (_, Self::Unknown | Self::Absent) => false,
        }
    }
}

/// What a gateway may do with a revision's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Use its share of each replica.
    Sharing,
    /// Use all credits: the others hand over.
    Owner,
    /// Use none: hand over to the gateway of this index.
    NonOwner(u32),
}

impl GatewaySet {
    /// The set of a gateway that is the only one.
    pub(crate) const ALONE: Self = Self { of: 1, me: Some(0), owner: 0 };

    /// Those of these names, sorted, as `me` sees them; where there are none at all, it is alone.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str> + Clone, me: &str, revision: &str) -> Self {
        let me = names.clone().position(|name| name == me);
        let owner = names.clone().enumerate();
        let owner = owner.max_by_key(|(_, name)| score(name, revision));
        owner.map_or(Self::ALONE, |(owner, _)| Self {
            of: names.count() as u32,
            me: me.map(|me| me as u32),
            owner: owner as u32,
        })
    }

    /// Number of gateways, at least one.
    pub(crate) fn count(self) -> u32 {
        self.of
    }

    /// What this gateway may do where all replicas together have so many credits.
    pub(crate) fn ownership(self, credits: u32) -> Ownership {
        let shares = self.of == 1 || credits >= FEWEST.saturating_mul(self.of);
        match self.me {
            Some(_) if shares => Ownership::Sharing,
            Some(me) if me == self.owner => Ownership::Owner,
            Some(_) | None => Ownership::NonOwner(self.owner),
        }
    }

    /// Its share of one replica's credits. Where they do not divide, `offset`, which differs from replica
    /// to replica, says who gets the rest.
    pub(crate) fn share(self, credits: u32, offset: u32) -> u32 {
        let Some(me) = self.me else {
            return 0;
        };
        let position = (me + offset % self.of) % self.of;
        credits / self.of + u32::from(position < credits % self.of)
    }
}

/// The same in every gateway, of whichever version.
fn score(gateway: &str, revision: &str) -> u64 {
    fixed_hash::of([gateway, revision])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gateways(of: u32, me: u32, revision: &str) -> GatewaySet {
        let names: Vec<String> = (0..of).map(|i| format!("gateway-{i}")).collect();
        let me = names[me as usize].clone();
        GatewaySet::new(names.iter().map(String::as_str), &me, revision)
    }

    proptest! {
        #[test]
        fn shares_add_up_to_all_credits(of in 1_u32..9, credits in 0_u32..100, offset: u32) {
            let shares = (0..of).map(|me| gateways(of, me, "r").share(credits, offset));
            prop_assert_eq!(shares.sum::<u32>(), credits);
        }

        #[test]
        fn exactly_one_owns_a_queue_of_few_credits(of in 1_u32..9, credits in 0_u32..40, revision in "[a-z]{3}") {
            let ownership = |me| gateways(of, me, &revision).ownership(credits);
            let owners: Vec<u32> = (0..of).filter(|me| ownership(*me) == Ownership::Owner).collect();
            for me in 0..of {
                match ownership(me) {
                    Ownership::Sharing => prop_assert!(of == 1 || credits >= 2 * of),
                    Ownership::Owner => prop_assert_eq!(&owners, &[me]),
                    Ownership::NonOwner(owner) => prop_assert_eq!(&owners, &[owner]),
                }
            }
        }

        #[test]
        fn a_gateway_that_leaves_takes_only_its_own_queues(of in 2_u32..9, revision in "[a-z]{3}") {
            let before = gateways(of, 0, &revision).owner;
            let after = gateways(of - 1, 0, &revision).owner;
            prop_assert!(before == after || before == of - 1);
        }
    }

    #[test]
    fn who_is_not_among_them_has_no_share() {
        let others = ["a", "b"];
        let gateways = GatewaySet::new(others.iter().copied(), "c", "r");
        assert!(matches!(gateways.ownership(100), Ownership::NonOwner(0 | 1)));
        assert_eq!(gateways.share(100, 7), 0);
    }

    #[test]
    fn where_there_are_none_it_is_alone() {
        let gateways = GatewaySet::new(std::iter::empty(), "c", "r");
        assert_eq!(gateways.ownership(0), Ownership::Sharing);
        assert_eq!(gateways.share(1, 7), 1);
    }
}
