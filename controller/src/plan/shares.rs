//! Traffic shares and tags of the revisions.

use weir_cluster::{RevisionName, Tag};

use super::Share;
use crate::history::History;
use crate::manifest::validate::{LATEST, PREVIOUS, Validated};

/// Returns the share of each revision: a canary receives what its ready replicas can take, the candidate its share of
/// the rest, and the stable revision the remainder.
pub(super) fn shares(validated: &Validated, history: &History) -> Vec<Share> {
    let rollout = &history.rollout;
    let Some(stable) = &rollout.stable else {
        return Vec::new();
    };
    let mut shares = Shares::default();
    shares.add(stable, 0);
    let mut left = shares.canaries(validated, history);
    if let Some(candidate) = &rollout.candidate {
        let percent = rollout.percent().min(left);
        left -= percent;
        shares.add(&candidate.revision, percent);
    }
    shares.add(stable, left);
    shares.tag(rollout.newest().unwrap_or(stable), LATEST);
    let previous = match (&rollout.candidate, &rollout.previous) {
        (Some(_), _) => Some(stable),
        (None, Some(previous)) => Some(&previous.revision),
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
    /// Adds the canaries; returns the percentage left for the other revisions.
    fn canaries(&mut self, validated: &Validated, history: &History) -> u8 {
        let mut left = 100;
        for of in history.canaries.iter().take(validated.canaries.len()) {
            let percent = of.progress.share.percent.min(left);
            left -= percent;
            self.add(&of.revision, percent);
            self.entry(&of.revision).tags.push(of.tag.clone());
        }
        left
    }

    /// Adds to the share of a revision, which may have several roles: a promoted canary is the candidate too.
    fn add(&mut self, revision: &RevisionName, percent: u8) {
        self.entry(revision).percent += percent;
    }

    /// Adds one of the two reserved tags, whose names are valid.
    fn tag(&mut self, revision: &RevisionName, tag: &str) {
        let tag = Tag::new(tag).ok();
        self.entry(revision).tags.extend(tag);
    }

    fn entry(&mut self, revision: &RevisionName) -> &mut Share {
        let found = self.0.iter().position(|share| share.revision == *revision);
        let at = found.unwrap_or(self.0.len());
        if found.is_none() {
            self.0.push(Share { revision: revision.clone(), percent: 0, tags: Vec::new() });
        }
        &mut self.0[at]
    }
}
