//! Kinds of requests, and sets of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a request, by which rules allow requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Inference, and every request that is none of the others.
    Infer,
    /// Health, metadata, configuration and statistics of a model.
    Metadata,
    /// Calls that control a server: loading, settings, shared memory, tracing, logging.
    Control,
    /// Choice of a revision by a header or by the host of a tag. The request needs the operation of its call as well.
    Pin,
}

impl Operation {
    /// All operations, each exactly once.
    pub const ALL: [Self; 4] = [Self::Infer, Self::Metadata, Self::Control, Self::Pin];

    /// Returns the word for files, logs and metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::Metadata => "metadata",
            Self::Control => "control",
            Self::Pin => "pin",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Infer => 1,
            Self::Metadata => 2,
            Self::Control => 4,
            Self::Pin => 8,
        }
    }
}

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operations(u8);

impl Operations {
    /// The set of all operations.
    pub const ALL: Self = Self(15);

    /// The operations of a rule that names none: use of a model, without control of its servers or choice of revisions.
    pub const USE: Self = Self(3);

    /// Returns true if the set contains the operation.
    #[must_use]
    pub const fn contains(self, operation: Operation) -> bool {
        self.0 & operation.bit() != 0
    }
}

impl FromIterator<Operation> for Operations {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> Self {
        Self(operations.into_iter().fold(0, |bits, operation| bits | operation.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_it_was_made_of() {
        assert_eq!(Operation::ALL.into_iter().collect::<Operations>(), Operations::ALL);
        assert_eq!([Operation::Infer, Operation::Metadata].into_iter().collect::<Operations>(), Operations::USE);
        for one in Operation::ALL {
            let set: Operations = [one].into_iter().collect();
            for other in Operation::ALL {
                assert_eq!(set.contains(other), one == other);
            }
            assert!(!Operations::default().contains(one));
        }
    }
}
