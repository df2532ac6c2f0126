//! Traffic split among revisions.

use crate::{ClusterError, RevisionName};

/// Revisions and their weights. At least one weight is above zero, and no revision is listed twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split(Vec<Target>);

/// A revision and its weight in a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The revision that receives the share.
    pub revision: RevisionName,
    /// The revision's share, relative to the sum of all weights.
    pub weight: u32,
}

impl Split {
    /// Sends all requests to one revision.
    #[must_use]
    pub fn all(revision: RevisionName) -> Self {
        Self(vec![Target { revision, weight: 100 }])
    }

    /// Splits requests by weight.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when no weight is above zero, a revision is listed twice, or the sum of the weights
    /// exceeds a `u32`.
    pub fn new(targets: Vec<Target>) -> Result<Self, ClusterError> {
        for (i, target) in targets.iter().enumerate() {
            if targets[..i].iter().any(|t| t.revision == target.revision) {
                return Err(ClusterError::refused(&target.revision, "listed twice in the split"));
            }
        }
        let sum: u64 = targets.iter().map(|target| u64::from(target.weight)).sum();
        if sum == 0 || u32::try_from(sum).is_err() {
            return Err(ClusterError::refused(
                "split",
                format!("weights sum to {sum}; they must sum to 1 or more, and fit 32 bits"),
            ));
        }
        Ok(Self(targets))
    }

    /// The revisions and their weights, in the given order.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.0
    }

    /// The sum of all weights, above zero.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().map(|target| target.weight).sum()
    }
}
