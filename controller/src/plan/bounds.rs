//! Bounds of each revision's number of replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_cluster::RevisionName;

use crate::history::History;
use crate::manifest::scaling::{ScaledBy, Scaling};
use crate::manifest::validate::Validated;
use crate::rollout::{Candidate, Stage};

/// Idle time after which the last replica of a replaced revision ends; by then every gateway sends requests to the
/// successor.
const RETENTION: Duration = Duration::from_secs(10);

/// Scaling of each revision of a service, with the minimum that the rollout needs.
pub(super) type Bounds = BTreeMap<RevisionName, Scaling>;

/// Time in seconds after which a failing candidate is reduced to one replica, which shows when it recovers.
const FAILED: u64 = 600;

/// Returns the bounds of all running revisions: stable, candidate, previous and canaries. In addition to the declared
/// bounds, a revision that has not loaded has one replica, and each hold of the rollout is a minimum until it ends.
pub(super) fn bounds(validated: &Validated, history: &History, now: u64) -> Bounds {
    let mut bounds = Bounds::new();
    let rollout = &history.rollout;
    let own = &validated.predictor.scaling;
    if let Some(previous) = &rollout.previous {
        let least = own.with_min(0);
        // Requests that name the revision still wake it. Without this limit the autoscaler would keep idle replicas for
        // as long as a slow start takes.
        let scaling = if rollout.keeps_previous(now) { least } else { least.with_retention(RETENTION) };
        raise(&mut bounds, &previous.revision, scaling);
    }
    for (canary, of) in validated.canaries.iter().zip(&history.canaries) {
        let held = of.progress.hold(now).unwrap_or(0);
        let scaling = until_loaded(&canary.variant.scaling, history, &of.revision).with_floor(held);
        raise(&mut bounds, &of.revision, scaling);
    }
    if let Some(stable) = &rollout.stable {
        raise(&mut bounds, stable, of_stable(own, history, stable));
    }
    if let Some(candidate) = &rollout.candidate {
        raise(&mut bounds, &candidate.revision, of_candidate(own, history, candidate, now));
    }
    for hold in rollout.holds(now) {
        if let Some(scaling) = bounds.get_mut(&hold.revision) {
            *scaling = scaling.with_floor(hold.replicas);
        }
    }
    bounds
}

/// Returns the bounds of the stable revision, which ends replicas for the candidate if the cluster has no room for
/// both.
fn of_stable(own: &Scaling, history: &History, stable: &RevisionName) -> Scaling {
    let scaling = until_loaded(own, history, stable);
    match history.rollout.exchange() {
        Some(part) => {
            let least = scaling.policy.min.min(part.stable);
            scaling.with_min(least).with_most(part.stable_most)
        }
        None => scaling,
    }
}

fn of_candidate(own: &Scaling, history: &History, candidate: &Candidate, now: u64) -> Scaling {
    let record = history.record(&candidate.revision);
    let fails = record.is_some_and(|record| record.is_failing);
    let is_late = now >= candidate.since.saturating_add(FAILED);
    match (&candidate.stage, candidate.share.target) {
        (Stage::Waiting, _) if fails && is_late => own.with_min(0).with_floor(1),
        // Only a running replica shows whether the model loads.
        (Stage::Waiting, _) => own.with_floor(at_creation(own, history)),
        (Stage::RolledBack(_), _) | (Stage::Shifting(_), 0) => own.with_min(0),
        (Stage::Shifting(_), _) => match history.rollout.exchange() {
            Some(part) => own.with_min(own.policy.min.min(part.candidate)),
            None => own.clone(),
        },
    }
}

/// Returns the fewest replicas of a candidate that has not loaded. Another autoscaler sees no load before requests
/// arrive, so its candidate begins with the replicas of the stable revision.
fn at_creation(own: &Scaling, history: &History) -> u32 {
    let stable = history.rollout.stable.as_ref();
    let stable = stable.and_then(|stable| history.record(stable));
    match own.by {
        ScaledBy::Weir | ScaledBy::MinReplicas => 1,
        ScaledBy::Others => stable.map_or(1, |stable| stable.desired_replicas.max(1)),
    }
}

fn until_loaded(scaling: &Scaling, history: &History, revision: &RevisionName) -> Scaling {
    if history.has_loaded(revision) { scaling.clone() } else { scaling.with_floor(1) }
}

/// Sets the bounds of a revision. A revision with two roles keeps the higher minimum.
fn raise(bounds: &mut Bounds, revision: &RevisionName, scaling: Scaling) {
    let floor = bounds.get(revision).map_or(0, |before| before.policy.min);
    bounds.insert(revision.clone(), scaling.with_floor(floor));
}
