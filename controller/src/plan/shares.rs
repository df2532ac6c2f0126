//! Who gets how many of a hundred requests, and which tags.

use weir_cluster::{RevisionName, Tag};

use super::Share;
use crate::History;
use crate::validate::{LATEST, PREVIOUS, Validated};

/// Canaries that have loaded get what they ask for; of the rest, the candidate gets its share and the
/// stable revision what is left.
pub(super) fn shares(valid: &Validated, history: &History) -> Vec<Share> {
    let rollout = &history.rollout;
    let Some(stable) = &rollout.stable else {
        return Vec::new();
    };
    let mut shares = Shares::default();
    shares.add(stable, 0);
    let mut left = shares.canaries(valid, history);
    if let Some(candidate) = &rollout.candidate {
        let percent = rollout.percent().min(left);
        left -= percent;
        shares.add(&candidate.revision, percent);
    }
    shares.add(stable, left);
    shares.tag(rollout.newest().unwrap_or(stable), LATEST);
    let previous = match (&rollout.candidate, &rollout.previous) {
        (Some(_), _) => Some(stable),
        (None, Some(former)) => Some(&former.revision),
        (None, None) => None,
    };
    if let Some(previous) = previous {
        shares.tag(previous, PREVIOUS);
    }
    shares.0
}

#[derive(Default)]
struct Shares(Vec<Share>);

impl Shares {
    /// What is left of a hundred.
    fn canaries(&mut self, valid: &Validated, history: &History) -> u8 {
        let mut left = 100;
        for (canary, of) in valid.canaries.iter().zip(&history.canaries) {
            let percent = match history.has_loaded(&of.revision) {
                true => canary.percent.min(left),
                false => 0,
            };
            left -= percent;
            self.add(&of.revision, percent);
            self.entry(&of.revision).tags.push(canary.tag.clone());
        }
        left
    }

    /// One revision may have several parts: a canary that is promoted is the candidate too.
    fn add(&mut self, revision: &RevisionName, percent: u8) {
        self.entry(revision).percent += percent;
    }

    /// Both names are tags, whoever else reads them.
    fn tag(&mut self, revision: &RevisionName, tag: &str) {
        let tag = Tag::new(tag).ok();
        self.entry(revision).tags.extend(tag);
    }

    fn entry(&mut self, revision: &RevisionName) -> &mut Share {
        let found = self.0.iter().position(|share| share.revision == *revision);
        let at = found.unwrap_or(self.0.len());
        if found.is_none() {
            self.0.push(Share {
                revision: revision.clone(),
                percent: 0,
                tags: Vec::new(),
            });
        }
        &mut self.0[at]
    }
}
