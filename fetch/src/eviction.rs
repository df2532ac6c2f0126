//! Choice of the models that leave a cache. Pure: the caller removes them.

use std::collections::BTreeMap;
use std::time::SystemTime;

/// A model that a cache may remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<I> {
    /// Identity of the model in its cache.
    pub id: I,
    /// Name of the tenant that owns the model; empty in a cache with one owner.
    pub owner: String,
    /// Size of the model in bytes.
    pub bytes: u64,
    /// Time at which the model was used last.
    pub last_use: SystemTime,
}

/// The models of a cache that exceeds its limit, in the order of their removal. The next model is always the least
/// recently used one of the owner that has the most bytes, so that one owner cannot displace the models of others.
#[derive(Clone, Debug)]
pub struct Eviction<I> {
    /// Models that have not been proposed yet, for each owner; the least recently used one is at the end.
    candidates: BTreeMap<String, Vec<Candidate<I>>>,
    /// Bytes of each owner, including proposed models that could not be removed.
    owned: BTreeMap<String, u64>,
    limit: u64,
    /// The owner that needs room; `None` if only the limit does.
    newcomer: Option<Newcomer>,
}

/// An owner that needs room for a model.
#[derive(Clone, Debug)]
struct Newcomer {
    owner: String,
    /// Models that were not used since this time are not protected.
    unused_since: SystemTime,
}

impl<I: Ord> Eviction<I> {
    /// Returns the eviction from a cache with these models, which may have `limit` bytes.
    pub fn new(models: impl IntoIterator<Item = Candidate<I>>, limit: u64) -> Self {
        let mut eviction = Self { candidates: BTreeMap::new(), owned: BTreeMap::new(), limit, newcomer: None };
        for model in models {
            eviction = eviction.with(&model.owner, model.bytes);
            eviction.candidates.entry(model.owner.clone()).or_default().push(model);
        }
        for models in eviction.candidates.values_mut() {
            models.sort_by(|a, b| (b.last_use, &b.id).cmp(&(a.last_use, &a.id)));
        }
        eviction
    }

    /// Adds bytes of an owner that cannot be removed, such as those of a model that is being stored or read.
    #[must_use]
    pub fn with(mut self, owner: &str, bytes: u64) -> Self {
        let owned = self.owned.entry(owner.to_owned()).or_default();
        *owned = owned.saturating_add(bytes);
        self
    }

    /// Adds a model for which an owner needs room. Other owners then lose only what exceeds an equal share of the limit,
    /// and models that were not used since `unused_since`. The owner's own models go for the rest.
    #[must_use]
    pub fn for_model_of(self, owner: &str, bytes: u64, unused_since: SystemTime) -> Self {
        let newcomer = Some(Newcomer { owner: owner.to_owned(), unused_since });
        Self { newcomer, ..self.with(owner, bytes) }
    }

    /// Returns true if the cache exceeds its limit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.owned.values().fold(0, |total: u64, bytes| total.saturating_add(*bytes)) > self.limit
    }

    /// Counts a proposed model as removed.
    pub fn removed(&mut self, model: &Candidate<I>) {
        if let Some(owned) = self.owned.get_mut(&model.owner) {
            *owned = owned.saturating_sub(model.bytes);
        }
    }
}

impl<I: Ord> Iterator for Eviction<I> {
    type Item = Candidate<I>;

    /// Proposes the next model; `None` once the cache is within its limit, or has no further models.
    fn next(&mut self) -> Option<Candidate<I>> {
        if !self.is_over() {
            return None;
        }
        let largest = self.largest()?;
        let owner = match &self.newcomer {
            Some(newcomer) if !self.exceeds_share(&largest) => self.unused(newcomer).unwrap_or(newcomer.owner.clone()),
            Some(_) | None => largest,
        };
        self.candidates.get_mut(&owner)?.pop()
    }
}

impl<I> Eviction<I> {
    /// Returns the owner with the most bytes of those that have further models.
    fn largest(&self) -> Option<String> {
        let with_models = self.candidates.iter().filter(|(_, models)| !models.is_empty());
        with_models.map(|(owner, _)| owner).max_by_key(|owner| self.owned.get(*owner)).cloned()
    }

    /// Returns true if an owner has more than an equal share of the limit.
    fn exceeds_share(&self, owner: &str) -> bool {
        let owners = self.owned.values().filter(|bytes| **bytes > 0).count() as u64;
        self.owned.get(owner).is_some_and(|owned| *owned > self.limit / owners.max(1))
    }

    /// Returns the owner of the least recently used model, if the model is not protected.
    fn unused(&self, newcomer: &Newcomer) -> Option<String> {
        let oldest = self.candidates.iter().filter_map(|(owner, models)| Some((models.last()?.last_use, owner)));
        oldest.min().filter(|(last_use, _)| *last_use < newcomer.unused_since).map(|(_, owner)| owner.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn model(id: u32, owner: &str, bytes: u64, last_use: u64) -> Candidate<u32> {
        let last_use = SystemTime::UNIX_EPOCH + Duration::from_secs(last_use);
        Candidate { id, owner: owner.to_owned(), bytes, last_use }
    }

    /// Removes all proposed models, and returns them in their order.
    fn removed(mut eviction: Eviction<u32>) -> Vec<u32> {
        let mut removed = Vec::new();
        while let Some(model) = eviction.next() {
            eviction.removed(&model);
            removed.push(model.id);
        }
        removed
    }

    #[test]
    fn the_least_recently_used_model_goes_first() {
        let models = || [model(1, "", 100, 3), model(2, "", 100, 1), model(3, "", 100, 2)];
        assert_eq!(removed(Eviction::new(models(), 300)), [0; 0]);
        assert_eq!(removed(Eviction::new(models(), 299)), [2]);
        assert_eq!(removed(Eviction::new(models(), 100)), [2, 3]);
        assert_eq!(removed(Eviction::new(models(), 250).with("", 100)), [2, 3]);
    }

    #[test]
    fn a_model_that_stays_counts() {
        let mut eviction = Eviction::new([model(1, "", 100, 1), model(2, "", 100, 2)], 100);
        assert_eq!(eviction.next().unwrap().id, 1);
        let second = eviction.next().unwrap();
        eviction.removed(&second);
        assert_eq!((second.id, eviction.next(), eviction.is_over()), (2, None, false));
    }

    #[test]
    fn the_owner_of_the_most_bytes_loses_models() {
        let models = [model(1, "small", 100, 0), model(2, "large", 200, 5), model(3, "large", 200, 4)];
        assert_eq!(removed(Eviction::new(models.clone(), 450)), [3]);
        assert_eq!(removed(Eviction::new(models.clone(), 350)), [3]);
        assert_eq!(removed(Eviction::new(models, 500).with("small", 450)), [1, 3, 2]);
    }

    #[test]
    fn a_newcomer_takes_no_more_than_a_share_from_others() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let models = || [model(1, "a", 50, 11), model(2, "a", 40, 12), model(3, "b", 10, 13)];
        let newcomer = |bytes| Eviction::new(models(), 100).for_model_of("b", bytes, at(10));
        assert_eq!(removed(newcomer(40)), [1]);
        // The rest of its share is its own.
        assert_eq!(removed(newcomer(55)), [1, 3]);
        let mut too_large = newcomer(70);
        while let Some(model) = too_large.next() {
            too_large.removed(&model);
        }
        assert!(too_large.is_over());
        // Unused models are not protected.
        assert_eq!(removed(Eviction::new(models(), 100).for_model_of("b", 90, at(13))), [3, 1, 2]);
    }

    fn models() -> impl Strategy<Value = Vec<Candidate<u32>>> {
        let one = (0..3_u8, 0..1000_u64, 0..100_u64);
        prop::collection::vec(one, 0..20).prop_map(|all| {
            let numbered = all.into_iter().zip(0..);
            numbered.map(|((owner, bytes, used), id)| model(id, &owner.to_string(), bytes, used)).collect()
        })
    }

    proptest! {
        #[test]
        fn no_more_is_removed_than_the_limit_needs(models in models(), limit in 0..10_000_u64) {
            let total = |gone: &[u32]| -> u64 {
                models.iter().filter(|model| !gone.contains(&model.id)).map(|model| model.bytes).sum()
            };
            let gone = removed(Eviction::new(models.clone(), limit));
            prop_assert!(total(&gone) <= limit);
            if let Some((_, before)) = gone.split_last() {
                prop_assert!(total(before) > limit);
            }
        }

        #[test]
        fn a_newcomer_of_any_size_leaves_others_their_share(models in models(), bytes in 0..20_000_u64, since in 0..120_u64) {
            let limit = models.iter().map(|model| model.bytes).sum::<u64>();
            let since = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
            let mut eviction = Eviction::new(models.clone(), limit).for_model_of("0", bytes, since);
            let mut owned = eviction.owned.clone();
            while let Some(model) = eviction.next() {
                eviction.removed(&model);
                let owners = owned.values().filter(|bytes| **bytes > 0).count() as u64;
                let has_more = owned[&model.owner] > limit / owners;
                prop_assert!(model.owner == "0" || has_more || model.last_use < since);
                *owned.get_mut(&model.owner).unwrap() -= model.bytes;
            }
            // An owner that stays within its share always finds room.
            let owners = 1 + models.iter().filter(|model| model.owner != "0" && model.bytes > 0).map(|model| &model.owner)
                .collect::<std::collections::BTreeSet<_>>().len() as u64;
            let own: u64 = models.iter().filter(|model| model.owner == "0").map(|model| model.bytes).sum();
            if own + bytes <= limit / owners {
                prop_assert!(!eviction.is_over());
            }
        }

        #[test]
        fn an_owner_within_its_share_loses_nothing(models in models(), limit in 0..10_000_u64) {
            // With three owners, an owner of less than a third of the limit is never the largest of a cache that exceeds it.
            let owned = |owner: &str| models.iter().filter(|model| model.owner == owner).map(|model| model.bytes).sum::<u64>();
            let gone = removed(Eviction::new(models.clone(), limit));
            for model in models.iter().filter(|model| gone.contains(&model.id)) {
                prop_assert!(owned(&model.owner) >= limit / 3);
            }
        }
    }
}
