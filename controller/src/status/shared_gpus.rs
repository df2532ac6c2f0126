//! Messages about GPUs that replicas share with other pods.

use std::collections::{BTreeMap, BTreeSet};

use weir_cluster::{GpuSharing, Revision, SharedGpu};

use super::StatusInputs;

/// Most nodes that a message names.
const NAMED: usize = 3;

/// Returns a sentence for each revision whose replicas share GPUs with other pods.
pub(super) fn sentences(inputs: &StatusInputs<'_>) -> Vec<String> {
    let revisions = inputs.snapshot.revisions_of(&inputs.declared.name);
    revisions.filter(|revision| !revision.shared_gpus.is_empty()).map(|revision| sentence(revision)).collect()
}

fn sentence(revision: &Revision) -> String {
    let mut nodes: BTreeMap<(GpuSharing, Option<u32>), BTreeSet<&str>> = BTreeMap::new();
    for SharedGpu { node, sharing, pods } in &revision.shared_gpus {
        nodes.entry((*sharing, *pods)).or_default().insert(node);
    }
    let ways = nodes.iter().map(|((sharing, pods), nodes)| {
        let pods = pods.map_or_else(|| "several pods".to_owned(), |pods| format!("{pods} pods"));
        format!("each GPU of {} is shared by {pods}{}", names(nodes), isolation(*sharing))
    });
    let ways: Vec<_> = ways.collect();
    format!("{} is not isolated from other pods: {}", revision.name.as_str(), ways.join("; "))
}

fn isolation(sharing: GpuSharing) -> &'static str {
    match sharing {
        GpuSharing::TimeSlicing => " in turn (time-slicing): they slow each other down, and any may use all its memory",
        GpuSharing::Mps => " at the same time (MPS): they slow each other down, and a fault in one may end all",
        GpuSharing::Unknown => ": they slow each other down, and any may use all its memory",
    }
}

fn names(nodes: &BTreeSet<&str>) -> String {
    let named: Vec<_> = nodes.iter().take(NAMED).copied().collect();
    let named = named.join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more nodes"),
    }
}
