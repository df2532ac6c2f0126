//! Bounds of each revision's number of replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_cluster::RevisionName;

use crate::history::History;
use crate::rollout::Stage;
use crate::scaling::Scaling;
use crate::validate::Validated;

/// Longest idle time of a revision that was replaced: by then every gateway sends requests to the one after it.
const RETENTION: Duration = Duration::from_secs(10);

/// Scaling of each revision of a service, with the minimum that the rollout needs.
pub(super) type Bounds = BTreeMap<RevisionName, Scaling>;

/// Bounds of all running revisions: stable, candidate, previous and canaries.
pub(super) fn bounds(validated: &Validated, history: &History, now: u64) -> Bounds {
    let mut bounds = Bounds::new();
    let rollout = &history.rollout;
    let own = &validated.predictor.scaling;
    if let Some(previous) = &rollout.previous {
        let least = own.with_min(0);
        // It keeps its replicas for a while. Then only requests that name it reach it: to keep them for what may come, as
        // the autoscaler does of others for as long as some starts take, would hold GPUs for nothing.
        let scaling = if rollout.keeps_previous(now) {
            least.with_floor(previous.kept_replicas)
        } else {
            least.with_retention(RETENTION)
        };
        raise(&mut bounds, &previous.revision, scaling);
    }
    for (canary, of) in validated.canaries.iter().zip(&history.canaries) {
        let scaling = until_loaded(&canary.variant.scaling, history, &of.revision);
        raise(&mut bounds, &of.revision, scaling);
    }
    if let Some(stable) = &rollout.stable {
        let scaling = until_loaded(own, history, stable);
        let candidate = rollout.candidate.as_ref();
        let kept_replicas = candidate.map_or(0, |_| rollout.kept_replicas);
        raise(&mut bounds, stable, scaling.with_floor(kept_replicas));
    }
    if let Some(candidate) = &rollout.candidate {
        let scaling = of_candidate(own, &candidate.stage, rollout.percent());
        raise(&mut bounds, &candidate.revision, scaling);
    }
    bounds
}

fn of_candidate(own: &Scaling, stage: &Stage, percent: u8) -> Scaling {
    match (stage, percent) {
        // Only a replica shows whether the model loads.
        (Stage::Waiting, _) => own.with_floor(1),
        (Stage::RolledBack(_), _) | (Stage::Shifting(_), 0) => own.with_min(0),
        (Stage::Shifting(_), _) => own.clone(),
    }
}

fn until_loaded(scaling: &Scaling, history: &History, revision: &RevisionName) -> Scaling {
    if history.has_loaded(revision) {
        scaling.clone()
    } else {
        scaling.with_floor(1)
    }
}

/// Sets the bounds of a revision; one with two roles keeps the higher minimum.
fn raise(bounds: &mut Bounds, revision: &RevisionName, scaling: Scaling) {
    let floor = bounds.get(revision).map_or(0, |before| before.policy.min);
    bounds.insert(revision.clone(), scaling.with_floor(floor));
}
