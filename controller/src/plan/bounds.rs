//! How many replicas each revision may have.

use std::collections::BTreeMap;

use weir_cluster::RevisionName;

use crate::rollout::Stage;
use crate::validate::Valid;
use crate::{History, Scaling};

/// How long a revision that was replaced keeps its replicas, in seconds, so that going back to it is
/// instant: most mistakes show within ten minutes.
pub(super) const HELD: u64 = 600;

/// The bounds of every revision that runs: the stable one, the candidate, the one before, the canaries.
pub(super) fn bounds(
    valid: &Valid,
    history: &History,
    now: u64,
) -> BTreeMap<RevisionName, Scaling> {
    let mut bounds = BTreeMap::new();
    let rollout = &history.rollout;
    let own = &valid.predictor.scaling;
    if let Some(former) = &rollout.previous {
        let held = match now.saturating_sub(former.since) < HELD {
            true => own.asleep_when_idle().with_floor(former.kept),
            false => own.asleep_when_idle(),
        };
        bounds.insert(former.revision.clone(), held);
    }
    for (canary, of) in valid.canaries.iter().zip(&history.canaries) {
        let scaling = until_loaded(&canary.variant.scaling, history, &of.revision);
        raise(&mut bounds, &of.revision, scaling);
    }
    if let Some(stable) = &rollout.stable {
        let scaling = until_loaded(own, history, stable);
        let scaling = match &rollout.candidate {
            Some(_) => scaling.with_floor(rollout.kept),
            None => scaling,
        };
        raise(&mut bounds, stable, scaling);
    }
    if let Some(candidate) = &rollout.candidate {
        let scaling = match (&candidate.stage, rollout.percent()) {
            // Only loading it shows that it loads.
            (Stage::Waiting, _) => own.with_floor(1),
            (Stage::RolledBack(_), _) | (Stage::Shifting(_), 0) => own.asleep_when_idle(),
            (Stage::Shifting(_), _) => own.clone(),
        };
        raise(&mut bounds, &candidate.revision, scaling);
    }
    bounds
}

fn until_loaded(scaling: &Scaling, history: &History, revision: &RevisionName) -> Scaling {
    match history.has_loaded(revision) {
        true => scaling.clone(),
        false => scaling.with_floor(1),
    }
}

/// A revision with two parts keeps the higher floor.
fn raise(bounds: &mut BTreeMap<RevisionName, Scaling>, revision: &RevisionName, scaling: Scaling) {
    let floor = bounds.get(revision).map_or(0, |before| before.min);
    bounds.insert(revision.clone(), scaling.with_floor(floor));
}
