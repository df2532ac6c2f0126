//! Serialized form of a history for the next controller: everything that the cluster does not show.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_cluster::{Identity, RevisionName, ServiceName, Tag};

use super::{Canary, History, LoadState, RevisionRecord, RuntimeRoll};
use crate::rollout::{CanaryShare, Candidate, CandidateShare, PreviousRevision, Rollout, Stage, Surge};

/// History of a service without its revisions' pods. Revisions are given by number, times in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WrittenHistory {
    stable: Option<u32>,
    candidate: Option<WrittenCandidate>,
    previous: Option<WrittenPrevious>,
    /// Replicas that the service's whole traffic needed when a share of it last moved between revisions.
    #[serde(rename = "keptReplicas")]
    needed_replicas: u32,
    canaries: BTreeMap<String, u32>,
    /// Shares of the canaries, by tag. Older versions of Weir did not store them: every canary received its whole
    /// share.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    canary_shares: BTreeMap<String, WrittenCanaryShare>,
    /// Revisions that have loaded since they came into use.
    loaded: BTreeSet<u32>,
    /// Hashes of the manifests from which revisions were made.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    manifests: BTreeMap<u32, String>,
    /// Last revision that a changed runtime made.
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_roll: Option<WrittenRoll>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenCandidate {
    revision: u32,
    stage: WrittenStage,
    since: u64,
    /// Absent from histories of older versions of Weir, in which a candidate got the whole share of its stage at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<WrittenShare>,
    /// True if the candidate's replicas do not fit the cluster together with those of the stable revision.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lacks_room: bool,
}

/// Serialized form of [`CandidateShare`], in percent.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
struct WrittenShare {
    percent: u8,
    target: u8,
}

/// JSON form of a [`CanaryShare`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenCanaryShare {
    #[serde(flatten)]
    share: WrittenShare,
    since: u64,
    needed_replicas: u32,
}

/// JSON form of a [`RuntimeRoll`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRoll {
    revision: u32,
    since: u64,
}

/// Serialized form of [`Stage`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum WrittenStage {
    Waiting,
    Shifting(usize),
    RolledBack(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenPrevious {
    revision: u32,
    since: u64,
    kept_replicas: u32,
}

impl WrittenHistory {
    /// Returns the serialized form of a history.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let rollout = &history.rollout;
        let canaries = history.canaries.iter();
        let loaded = |record: &&RevisionRecord| record.load != LoadState::Never;
        let loaded = history.records.iter().filter(loaded);
        Self {
            stable: rollout.stable.as_ref().map(RevisionName::number),
            candidate: rollout.candidate.as_ref().map(WrittenCandidate::of),
            previous: rollout.previous.as_ref().map(|previous| WrittenPrevious {
                revision: previous.revision.number(),
                since: previous.since,
                kept_replicas: previous.kept_replicas,
            }),
            needed_replicas: rollout.needed_replicas,
            canaries: canaries.clone().map(|canary| (canary.tag.to_string(), canary.revision.number())).collect(),
            canary_shares: canaries
                .map(|canary| (canary.tag.to_string(), WrittenCanaryShare::of(canary.progress)))
                .collect(),
            loaded: loaded.map(|record| record.revision.number()).collect(),
            manifests: manifests(history),
            runtime_roll: history
                .runtime_roll
                .as_ref()
                .map(|roll| WrittenRoll { revision: roll.revision.number(), since: roll.since }),
        }
    }

    /// Returns the history of these revisions. References to other revisions are dropped.
    #[must_use]
    pub fn history(self, service: &ServiceName, mut records: Vec<RevisionRecord>) -> History {
        for record in &mut records {
            let number = record.revision.number();
            if self.loaded.contains(&number) {
                record.load = LoadState::Once;
            }
            let manifest = self.manifests.get(&number);
            record.manifest = manifest.map(|hash| Identity::from_label(hash));
        }
        let known = |number: u32| {
            let name = service.revision(number).ok()?;
            records.iter().any(|r| r.revision == name).then_some(name)
        };
        let canary = |(tag, number): (&String, &u32)| {
            let progress = WrittenCanaryShare::progress(self.canary_shares.get(tag));
            Some(Canary { tag: Tag::new(tag).ok()?, revision: known(*number)?, progress })
        };
        let canaries = self.canaries.iter().filter_map(canary).collect();
        let runtime_roll = self
            .runtime_roll
            .as_ref()
            .and_then(|roll| Some(RuntimeRoll { revision: known(roll.revision)?, since: roll.since }));
        let rollout = self.rollout(known);
        History { rollout, canaries, records, runtime_roll }
    }

    fn rollout(&self, known: impl Fn(u32) -> Option<RevisionName>) -> Rollout {
        let Some(stable) = self.stable.and_then(&known) else {
            return Rollout::default();
        };
        let previous = self.previous.as_ref().and_then(|previous| {
            Some(PreviousRevision {
                revision: known(previous.revision)?,
                since: previous.since,
                kept_replicas: previous.kept_replicas,
            })
        });
        let candidate = self.candidate.as_ref().and_then(|candidate| {
            Some(Candidate {
                revision: known(candidate.revision)?,
                stage: candidate.stage.stage(),
                since: candidate.since,
                share: candidate.share(),
                surge: if candidate.lacks_room { Surge::None } else { Surge::Full },
            })
        });
        Rollout {
            stable: Some(stable),
            previous,
            candidate,
            needed_replicas: self.needed_replicas,
            ..Rollout::default()
        }
    }
}

fn manifests(history: &History) -> BTreeMap<u32, String> {
    let each = history.records.iter().filter_map(|record| {
        let manifest = record.manifest.as_ref()?;
        Some((record.revision.number(), manifest.to_string()))
    });
    each.collect()
}

impl WrittenCandidate {
    fn of(candidate: &Candidate) -> Self {
        Self {
            revision: candidate.revision.number(),
            stage: match &candidate.stage {
                Stage::Waiting => WrittenStage::Waiting,
                Stage::Shifting(step) => WrittenStage::Shifting(*step),
                Stage::RolledBack(reason) => WrittenStage::RolledBack(reason.to_string()),
            },
            since: candidate.since,
            share: Some(WrittenShare { percent: candidate.share.percent, target: candidate.share.target }),
            lacks_room: candidate.surge == Surge::None,
        }
    }

    /// Returns the share. Earlier versions wrote none: then a shifting candidate counts as having everything, and the
    /// next step lowers that to the share in the manifest.
    fn share(&self) -> CandidateShare {
        let written = self.share.map(|share| CandidateShare { percent: share.percent, target: share.target });
        written.unwrap_or(match self.stage {
            WrittenStage::Waiting | WrittenStage::RolledBack(_) => CandidateShare::default(),
            WrittenStage::Shifting(_) => CandidateShare { percent: 100, target: 100 },
        })
    }
}

impl WrittenCanaryShare {
    fn of(progress: CanaryShare) -> Self {
        let CanaryShare { share, since, needed_replicas, .. } = progress;
        Self { share: WrittenShare { percent: share.percent, target: share.target }, since, needed_replicas }
    }

    /// Returns the stored share. If none is stored, the share is 100 %, which the next step lowers to that of the
    /// manifest.
    fn progress(written: Option<&Self>) -> CanaryShare {
        let Some(Self { share, since, needed_replicas }) = written.copied() else {
            return CanaryShare { share: CandidateShare { percent: 100, target: 100 }, ..CanaryShare::default() };
        };
        let share = CandidateShare { percent: share.percent, target: share.target };
        CanaryShare { share, since, needed_replicas, ready_replicas: 0 }
    }
}

impl WrittenStage {
    fn stage(&self) -> Stage {
        match self {
            Self::Waiting => Stage::Waiting,
            Self::Shifting(step) => Stage::Shifting(*step),
            Self::RolledBack(reason) => Stage::RolledBack(reason.as_str().into()),
        }
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use weir_cluster::PodTemplate;

    use super::*;

    fn service() -> ServiceName {
        ServiceName::new("default", "digits").unwrap()
    }

    fn records(loaded: &[bool]) -> Vec<RevisionRecord> {
        let record = |(i, loaded): (usize, &bool)| RevisionRecord {
            revision: service().revision(i as u32 + 1).unwrap(),
            template: PodTemplate::default(),
            storage: Vec::new(),
            identity: Identity::from_label(&i.to_string()),
            ready_call: None,
            manifest: loaded.then(|| Identity::from_label(&format!("m{i}"))),
            load: if *loaded { LoadState::Once } else { LoadState::Never },
            is_failing: false,
            desired_replicas: 0,
        };
        loaded.iter().enumerate().map(record).collect()
    }

    fn stage() -> impl Strategy<Value = Stage> {
        prop_oneof![
            Just(Stage::Waiting),
            (0_usize..9).prop_map(Stage::Shifting),
            "[a-z \"{}]{0,20}".prop_map(|reason| Stage::RolledBack(reason.as_str().into())),
        ]
    }

    prop_compose! {
        fn history()(
            loaded in proptest::collection::vec(any::<bool>(), 3..6),
            stage in stage(),
            has in any::<[bool; 4]>(),
            kept_replicas in 0_u32..9,
            percent in (0_u8..=100, 0_u8..=100),
            since in any::<u64>(),
        ) -> History {
            let name = |number| service().revision(number).unwrap();
            let share = CandidateShare { percent: percent.0.min(percent.1), target: percent.1 };
            let surge = if has[0] { Surge::Full } else { Surge::None };
            let candidate = Candidate { revision: name(3), stage, since, share, surge };
            let previous = PreviousRevision { revision: name(1), since, kept_replicas };
            let roll = RuntimeRoll { revision: name(3), since };
            let progress = CanaryShare { share, since, needed_replicas: kept_replicas, ready_replicas: 0 };
            let canary = Canary { tag: Tag::new("next").unwrap(), revision: name(1), progress };
            History {
                rollout: Rollout {
                    stable: Some(name(2)),
                    previous: has[0].then_some(previous),
                    candidate: has[1].then_some(candidate),
                    needed_replicas: kept_replicas,
                    ..Rollout::default()
                },
                canaries: has[2].then_some(canary).into_iter().collect(),
                records: records(&loaded),
                runtime_roll: has[3].then_some(roll),
            }
        }
    }

    proptest! {
        #[test]
        fn a_history_is_read_as_it_was_written(history in history()) {
            let text = serde_json::to_string(&WrittenHistory::of(&history)).unwrap();
            let written: WrittenHistory = serde_json::from_str(&text).unwrap();
            let mut records = history.records.clone();
            for record in &mut records {
                (record.load, record.manifest) = (LoadState::Never, None);
            }
            prop_assert_eq!(written.history(&service(), records), history);
        }

        #[test]
        fn a_candidate_without_a_written_share_has_the_whole_share(history in history()) {
            let mut text = serde_json::to_value(WrittenHistory::of(&history)).unwrap();
            if let Some(candidate) = text["candidate"].as_object_mut() {
                candidate.remove("share");
            }
            let written: WrittenHistory = serde_json::from_value(text).unwrap();
            let read = written.history(&service(), history.records.clone()).rollout;
            let whole = read.candidate.as_ref().map(|candidate| candidate.share.percent);
            let expected = history.rollout.candidate.as_ref().map(|candidate| match candidate.stage {
                Stage::Waiting | Stage::RolledBack(_) => 0,
                Stage::Shifting(_) => 100,
            });
            prop_assert_eq!(whole, expected);
        }

        #[test]
        fn references_to_missing_revisions_are_dropped(history in history(), left in 0_usize..4) {
            let records = history.records[..left].to_vec();
            let read = WrittenHistory::of(&history).history(&service(), records);
            let is_known = |name: &RevisionName| read.record(name).is_some();
            prop_assert!(read.rollout.revisions().all(is_known));
            prop_assert!(read.canaries.iter().all(|canary| is_known(&canary.revision)));
            prop_assert!(read.runtime_roll.iter().all(|roll| is_known(&roll.revision)));
        }
    }
}
