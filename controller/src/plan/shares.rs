//! Who gets how many of a hundred requests, and which tags.

use weir_cluster::{RevisionName, Tag};

use super::Share;
use crate::History;
use crate::validate::{LATEST, PREVIOUS, Valid};

/// Canaries that have loaded get what they ask for; of the rest, the candidate gets its share and the
/// stable revision what is left.
pub(super) fn shares(valid: &Valid, history: &History) -> Vec<Share> {
    let mut shares = Shares::default();
    let rollout = &history.rollout;
    let Some(stable) = &rollout.stable else {
        return Vec::new();
    };
    let mut left = 100;
    shares.add(stable, 0);
    for (canary, of) in valid.canaries.iter().zip(&history.canaries) {
        let percent = match history.has_loaded(&of.revision) {
            true => canary.percent.min(left),
            false => 0,
        };
        left -= percent;
        shares.add(&of.revision, percent);
        shares.tag(&of.revision, Some(canary.tag.clone()));
    }
    if let Some(candidate) = &rollout.candidate {
        let percent = rollout.percent().min(left);
        left -= percent;
        shares.add(&candidate.revision, percent);
    }
    shares.add(stable, left);
    if let Some(newest) = rollout.newest() {
        shares.tag(newest, Tag::new(LATEST).ok());
    }
    let previous = match (&rollout.candidate, &rollout.previous) {
        (Some(_), _) => Some(stable),
        (None, Some(former)) => Some(&former.revision),
        (None, None) => None,
    };
    if let Some(previous) = previous {
        shares.add(previous, 0);
        shares.tag(previous, Tag::new(PREVIOUS).ok());
    }
    shares.0
}

#[derive(Default)]
struct Shares(Vec<Share>);

impl Shares {
    /// One revision may have several parts: a canary that is promoted is the candidate too.
    fn add(&mut self, revision: &RevisionName, percent: u8) {
        match self.0.iter_mut().find(|share| share.revision == *revision) {
            Some(share) => share.percent += percent,
            None => self.0.push(Share {
                revision: revision.clone(),
                percent,
                tags: Vec::new(),
            }),
        }
    }

    fn tag(&mut self, revision: &RevisionName, tag: Option<Tag>) {
        if let Some(share) = self.0.iter_mut().find(|share| share.revision == *revision) {
            share.tags.extend(tag);
        }
    }
}
