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
}

impl<I: Ord> Eviction<I> {
    /// Returns the eviction from a cache with these models, which may have `limit` bytes.
    pub fn new(models: impl IntoIterator<Item = Candidate<I>>, limit: u64) -> Self {
        let mut eviction = Self { candidates: BTreeMap::new(), owned: BTreeMap::new(), limit };
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
        let owned = |owner: &String| self.owned.get(owner).copied().unwrap_or(0);
        let with_models = self.candidates.iter().filter(|(_, models)| !models.is_empty());
        let largest = with_models.map(|(owner, _)| owner).max_by_key(|owner| owned(owner))?.clone();
        self.candidates.get_mut(&largest)?.pop()
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
