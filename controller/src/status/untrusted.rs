//! Messages about replicas whose certificates gateways do not trust.

use weir_cluster::{Replica, Revision, RevisionName, UntrustedReplicas};

use super::StatusInputs;

/// Most replicas of a revision that a message names.
const NAMED: usize = 3;

/// Advice at the end of a message.
const CURE: &str = "delete such a pod, and the next one gets a new certificate from a controller; after a change of the \
                    authority, change the predictor's pod instead, because only a new revision trusts the present one";

/// Returns a message about the running replicas of the service that gateways do not trust; `None` if there are none.
pub(super) fn message(inputs: &StatusInputs<'_>) -> Option<String> {
    let revisions = inputs.snapshot.revisions_of(&inputs.declared.name);
    let each = revisions.filter_map(|revision| sentence(revision, inputs.untrusted.get(&revision.name)?));
    let sentences: Vec<_> = each.collect();
    (!sentences.is_empty()).then(|| format!("{}; {CURE}", sentences.join("; ")))
}

/// Returns a message if a revision has ready replicas and gateways trust none of them; otherwise `None`.
pub(super) fn all(inputs: &StatusInputs<'_>, name: &RevisionName) -> Option<String> {
    let (untrusted, revision) = (inputs.untrusted.get(name)?, inputs.revision(name)?);
    let is_trusted = |replica: &Replica| !untrusted.contains_key(&replica.name);
    if revision.ready().any(is_trusted) {
        return None;
    }
    sentence(revision, untrusted).map(|sentence| format!("{sentence}; {CURE}"))
}

/// Returns a sentence about the untrusted replicas that the revision still has; None if there are none. The reports may
/// be older than the snapshot and name replicas that have ended.
fn sentence(revision: &Revision, untrusted: &UntrustedReplicas) -> Option<String> {
    let each = revision.replicas.iter().filter_map(|replica| Some((&replica.name, untrusted.get(&replica.name)?)));
    let mut named: Vec<_> = each.map(|(name, because)| format!("{name} ({because})")).collect();
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let revision = revision.name.as_str();
    let names = named.join(", ");
    (!named.is_empty())
        .then(|| format!("gateways do not trust the certificates of these replicas of {revision}: {names}{more}"))
}
