//! How many replicas each revision may have.

use std::collections::BTreeMap;

use weir_cluster::RevisionName;

use crate::rollout::{PreviousRevision, Stage};
use crate::validate::Validated;
use crate::{History, Scaling};

/// How long a revision that was replaced keeps its replicas, in seconds, so that going back to it is
/// instant: most mistakes show within ten minutes.
pub(super) const HELD: u64 = 600;

/// The scaling of each revision of a service, its minimum as the rollout needs it.
pub(super) type Bounds = BTreeMap<RevisionName, Scaling>;

/// The bounds of every revision that runs: the stable one, the candidate, the one before, the canaries.
pub(super) fn bounds(valid: &Validated, history: &History, now: u64) -> Bounds {
    let mut bounds = Bounds::new();
    let rollout = &history.rollout;
    let own = &valid.predictor.scaling;
    if let Some(former) = &rollout.previous {
        raise(&mut bounds, &former.revision, held(own, former, now));
    }
    for (canary, of) in valid.canaries.iter().zip(&history.canaries) {
        let scaling = until_loaded(&canary.variant.scaling, history, &of.revision);
        raise(&mut bounds, &of.revision, scaling);
    }
    if let Some(stable) = &rollout.stable {
        let scaling = until_loaded(own, history, stable);
        let kept = rollout.candidate.as_ref().map_or(0, |_| rollout.kept);
        raise(&mut bounds, stable, scaling.with_floor(kept));
    }
    if let Some(candidate) = &rollout.candidate {
        let scaling = taking_over(own, &candidate.stage, rollout.percent());
        raise(&mut bounds, &candidate.revision, scaling);
    }
    bounds
}

/// A revision that was replaced keeps what it had for a while, and may sleep then.
fn held(own: &Scaling, former: &PreviousRevision, now: u64) -> Scaling {
    let kept = match is_held(former, now) {
        true => former.kept,
        false => 0,
    };
    own.with_min(0).with_floor(kept)
}

/// Whether a revision that was replaced keeps what it had.
pub(crate) fn is_held(former: &PreviousRevision, now: u64) -> bool {
    now.saturating_sub(former.since) < HELD
}

fn taking_over(own: &Scaling, stage: &Stage, percent: u8) -> Scaling {
    match (stage, percent) {
        // Only loading it shows that it loads.
        (Stage::Waiting, _) => own.with_floor(1),
        (Stage::RolledBack(_), _) | (Stage::Shifting(_), 0) => own.with_min(0),
        (Stage::Shifting(_), _) => own.clone(),
    }
}

fn until_loaded(scaling: &Scaling, history: &History, revision: &RevisionName) -> Scaling {
    match history.has_loaded(revision) {
        true => scaling.clone(),
        false => scaling.with_floor(1),
    }
}

/// A revision with two parts keeps the higher floor.
fn raise(bounds: &mut Bounds, revision: &RevisionName, scaling: Scaling) {
    let floor = bounds.get(revision).map_or(0, |before| before.policy.min);
    bounds.insert(revision.clone(), scaling.with_floor(floor));
}
