//! Difference of two snapshots, computed from the values that they share.

use std::cmp::Ordering;
use std::collections::btree_map;
use std::iter::Peekable;
use std::sync::Arc;

use super::{Revision, Revisions};
use crate::RevisionName;

type Each<'a> = Peekable<btree_map::Iter<'a, RevisionName, Arc<Revision>>>;

/// Iterator over the names of the revisions that were added, removed or replaced, in order.
pub(super) struct Changes<'a> {
    now: Each<'a>,
    before: Each<'a>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(now: &'a Revisions, before: &'a Revisions) -> Self {
        Self { now: now.iter().peekable(), before: before.iter().peekable() }
    }

    /// Skips the revisions that both snapshots share: usually all of a thousand but one.
    fn skip_shared(&mut self) {
        let is_same = |(_, now): &(_, &Arc<Revision>), (_, before): &(_, &Arc<Revision>)| Arc::ptr_eq(now, before);
        while let (Some(now), Some(before)) = (self.now.peek(), self.before.peek())
            && is_same(now, before)
        {
            self.now.next();
            self.before.next();
        }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = &'a RevisionName;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_shared();
        let (now, before) = (self.now.peek(), self.before.peek());
        let order = match (now, before) {
            (Some((now, _)), Some((before, _))) => now.cmp(before),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let next = match order {
            Ordering::Less => self.now.next(),
            Ordering::Greater => self.before.next(),
            Ordering::Equal => {
                self.before.next();
                self.now.next()
            }
        };
        next.map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ServiceName, Workload};

    fn revisions(counts: &[Option<u32>]) -> Revisions {
        let service = ServiceName::new("default", "digits").unwrap();
        let each = counts.iter().enumerate();
        let each = each.filter_map(|(i, count)| Some((i as u32 + 1, (*count)?)));
        each.map(|(number, desired)| {
            let workload = Workload::new(service.revision(number).unwrap(), crate::PodTemplate::default(), 0);
            let revision = Revision::new(&workload, desired);
            (workload.revision, Arc::new(revision))
        })
        .collect()
    }

    proptest! {
        #[test]
        fn every_changed_revision_is_listed(
            before in proptest::collection::vec(proptest::option::of(0_u32..3), 6),
            now in proptest::collection::vec(proptest::option::of(0_u32..3), 6),
        ) {
            let before = revisions(&before);
            let mut now = revisions(&now);
            for (name, revision) in &mut now {
                if let Some(same) = before.get(name).filter(|same| *same == revision) {
                    *revision = Arc::clone(same);
                }
            }
            let names = before.keys().chain(now.keys());
            let names: std::collections::BTreeSet<_> = names.collect();
            let changed = names.into_iter().filter(|name| before.get(name) != now.get(name));
            let listed: Vec<_> = Changes::new(&now, &before).collect();
            prop_assert_eq!(listed, changed.collect::<Vec<_>>());
        }
    }
}
