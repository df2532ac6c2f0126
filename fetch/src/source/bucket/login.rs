//! The identity with which a bucket is read.

/// A way to prove identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// The credentials that the user or the cluster gave.
    Given,
    /// The bucket is read without credentials.
    Anonymous,
    /// The identity of the machine, which its metadata service proves.
    Machine,
}
