//! Verdicts of earlier trials, by what was tried.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use weir_runtime::model_file::{self, Digest};

use super::Verdict;
use crate::sandbox::Request;

/// Most verdicts that are kept: a server has some dozens of models.
const MOST: usize = 64;

/// Most bytes of warm-up inputs in a verdict that is kept.
const MOST_BYTES: usize = 256 << 10;

/// The identity of a trial: the contents of the file, and the rest of what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    digest: Digest,
    request: u64,
}

/// The latest verdicts, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<VecDeque<(Key, Verdict)>>);

impl Key {
    /// The key of a request; `None` where a file cannot be identified.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        // Libraries of operators are files that may change.
        if !request.source.op_libraries.is_empty() {
            return None;
        }
        let mut asked = request.clone();
        asked.source.path.clear();
        let mut hasher = DefaultHasher::new();
        serde_json::to_vec(&asked).ok()?.hash(&mut hasher);
        let example = request.source.example.iter().flatten();
        example.for_each(|tensor| tensor.data().hash(&mut hasher));
        Some(Self { digest: model_file::digest(&request.source.path)?, request: hasher.finish() })
    }
}

impl Verdicts {
    pub(crate) fn find(&self, key: Key) -> Option<Verdict> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = kept.iter();
        kept.find_map(|(other, verdict)| (*other == key).then(|| verdict.clone()))
    }

    /// Keeps a verdict, unless it is large.
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
