//! Divides the credits of a revision's replicas between several gateways.
//!
//! Each gateway takes an even share of every replica. If that left a gateway with fewer than two credits, a request
//! could wait at one gateway while a credit is free at another. Then one gateway, on which all agree, has all credits,
//! and the others hand their requests over to it. A gateway that is not among those that are up, because it has just
//! started or is about to stop, has no credits and hands over as well.

use super::fixed_hash;

/// Minimum number of credits for each gateway; with fewer, one gateway owns all of them.
const MIN_CREDITS_PER_GATEWAY: u32 = 2;

/// The gateways in front of one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewaySet {
    /// Number of gateways, at least one.
    of: u32,
    /// Index of this gateway among all, sorted by name; `None` if it is not among them.
    me: Option<u32>,
    /// True if this gateway owns the revision's queue if credits are few.
    is_owner: bool,
}

/// Place of a gateway among the gateways that are up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// No gateway is reported.
    Unknown,
    /// Only other gateways are up.
    Absent,
    /// The gateway is the only one that is up.
    Alone,
    /// The gateway is one of several.
    Among,
}

impl Membership {
    /// Returns the membership of the gateway `me` among the gateways with these names.
    pub(crate) fn of<'a>(mut names: impl ExactSizeIterator<Item = &'a str>, me: &str) -> Self {
        let count = names.len();
        match (names.any(|name| name == me), count) {
            (false, 0) => Self::Unknown,
            (false, _) => Self::Absent,
            (true, 1) => Self::Alone,
            (true, _) => Self::Among,
        }
    }

    /// Returns the number of gateways that serve clients, this one included, if `reported` are up. A gateway that is
    /// not among them has just started, or still serves its last clients.
    pub(crate) fn gateways(self, reported: u32) -> u32 {
        match self {
            Self::Unknown | Self::Alone => 1,
            Self::Absent => reported.saturating_add(1),
            Self::Among => reported,
        }
    }

    /// Returns true if the gateway has just joined or replaced other gateways, which may still use its credits.
    pub(crate) fn joins(self, before: Self) -> bool {
        match (before, self) {
            (Self::Absent, Self::Alone | Self::Among) | (Self::Unknown, Self::Among) => true,
            (Self::Unknown, Self::Alone)
            | (Self::Alone | Self::Among, Self::Alone | Self::Among)
            | (_, Self::Unknown | Self::Absent) => false,
        }
    }
}

/// Right of a gateway to a revision's credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The gateway uses its share of each replica.
    Sharing,
    /// The gateway uses all credits; the others hand over to it.
    Owner,
    /// The gateway uses no credits and hands over to the owner.
    NonOwner,
}

impl GatewaySet {
    /// The set with this gateway as its only member.
    pub(crate) const ALONE: Self = Self { of: 1, me: Some(0), is_owner: true };

    /// Creates the set of the gateways with these sorted names, as seen by `me`. Without any name, `me` is alone.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str> + Clone, me: &str, revision: &str) -> Self {
        let Some(owner) = owner(names.clone(), |name| name, revision) else {
            return Self::ALONE;
        };
        let index = names.clone().position(|name| name == me);
        Self { of: names.count() as u32, me: index.map(|index| index as u32), is_owner: owner == me }
    }

    /// Returns the number of gateways, at least one.
    pub(crate) fn count(self) -> u32 {
        self.of
    }

    /// Returns this gateway's right if all replicas together have `credits` credits.
    pub(crate) fn ownership(self, credits: u32) -> Ownership {
        let shares = self.of == 1 || credits >= MIN_CREDITS_PER_GATEWAY.saturating_mul(self.of);
        match self.me {
            Some(_) if shares => Ownership::Sharing,
            Some(_) if self.is_owner => Ownership::Owner,
            Some(_) | None => Ownership::NonOwner,
        }
    }

    /// Returns this gateway's share of one replica's credits. `offset`, which differs between replicas, decides which
    /// gateways get the remainder.
    pub(crate) fn share(self, credits: u32, offset: u32) -> u32 {
        let Some(me) = self.me else {
            return 0;
        };
        let position = (me + offset % self.of) % self.of;
        credits / self.of + u32::from(position < credits % self.of)
    }
}

/// Returns the gateway that owns the revision's queue, by a score that is the same at gateways of every version; `None`
/// if there is no gateway. The gateways are sorted by name.
pub(crate) fn owner<T>(gateways: impl Iterator<Item = T>, name: impl Fn(&T) -> &str, revision: &str) -> Option<T> {
    gateways.max_by_key(|gateway| fixed_hash::of([name(gateway), revision]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    fn gateways(of: u32, me: u32, revision: &str) -> GatewaySet {
        GatewaySet::new(NAMES[..of as usize].iter().copied(), NAMES[me as usize], revision)
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
                    Ownership::NonOwner => prop_assert!(owners.len() == 1 && owners != [me]),
                }
            }
        }

        #[test]
        fn a_gateway_that_leaves_takes_only_its_own_queues(of in 2_usize..9, revision in "[a-z]{3}") {
            let owner_of = |of| owner(0..of, |gateway| NAMES[*gateway], &revision);
            let (before, after) = (owner_of(of), owner_of(of - 1));
            prop_assert!(before == after || before == Some(of - 1));
        }
    }

    #[test]
    fn a_gateway_counts_itself_among_those_that_serve_clients() {
        let count = |names: &[&str]| Membership::of(names.iter().copied(), "me").gateways(names.len() as u32);
        assert_eq!((count(&[]), count(&["me"]), count(&["a", "me"]), count(&["a", "b"])), (1, 1, 2, 3));
    }

    #[test]
    fn an_absent_gateway_has_no_share() {
        let others = ["a", "b"];
        let gateways = GatewaySet::new(others.iter().copied(), "c", "r");
        assert_eq!(gateways.ownership(100), Ownership::NonOwner);
        assert_eq!(gateways.share(100, 7), 0);
    }

    #[test]
    fn a_gateway_is_alone_if_no_gateway_is_reported() {
        let gateways = GatewaySet::new(std::iter::empty(), "c", "r");
        assert_eq!(gateways.ownership(0), Ownership::Sharing);
        assert_eq!(gateways.share(1, 7), 1);
    }
}
