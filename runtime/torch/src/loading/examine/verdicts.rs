//! Cache of verdicts of earlier trials.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use weir_runtime::model_file::{self, Digest};

use super::Verdict;
use crate::loading::sandbox::Request;

/// Largest number of cached verdicts: a server has some dozens of models.
const MOST: usize = 64;

/// Largest size of the warm-up inputs of a cached verdict, in bytes.
const MOST_BYTES: usize = 256 << 10;

/// The identity of a trial: a digest of the model file, and a hash of the rest of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    digest: Digest,
    request: u64,
}

/// The latest verdicts, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<VecDeque<(Key, Verdict)>>);

impl Key {
    /// Returns the key of a request; `None` if a file of the request cannot be identified.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        // Operator libraries are further files, whose contents the key does not cover.
        if !request.source.op_libraries.is_empty() {
            return None;
        }
        let mut asked = request.clone();
        asked.source.path.clear();
        let mut hasher = DefaultHasher::new();
        serde_json::to_vec(&asked).ok()?.hash(&mut hasher);
        let example = request.source.example.iter().flatten();
        example.for_each(|tensor| tensor.data().hash(&mut hasher));
        let samples = request.source.samples.iter().flat_map(|sample| &sample.inputs);
        samples.for_each(|(_, part)| part.data.hash(&mut hasher));
        Some(Self { digest: model_file::digest(&request.source.path)?, request: hasher.finish() })
    }
}

impl Verdicts {
    pub(crate) fn find(&self, key: Key) -> Option<Verdict> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = kept.iter();
        kept.find_map(|(other, verdict)| (*other == key).then(|| verdict.clone()))
    }

    /// Caches a verdict, unless its warm-up inputs are large.
    pub(crate) fn keep(&self, key: Key, verdict: &Verdict) {
        let parts = verdict.warm_up.iter().flat_map(|input| input.row.iter().flatten());
        if parts.map(|part| part.data.len()).sum::<usize>() > MOST_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != key);
        if kept.len() >= MOST {
            kept.pop_front();
        }
        kept.push_back((key, verdict.clone()));
    }
}
