//! A revision's pod, completed by what it needs here. It is no part of the revision's identity, and is done once.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::ClusterError;

use super::{labels, storage};
use crate::Options;
use crate::stored::StoredRevision;

/// The pod of a revision as its Deployment has it.
///
/// # Errors
/// [`ClusterError::Refused`] when its storage cannot be had here.
pub(crate) fn complete(
    stored: &StoredRevision,
    _options: &Options,
) -> Result<PodTemplateSpec, ClusterError> {
    let mut template = (*stored.template).clone();
    let metadata = template.metadata.get_or_insert_default();
    metadata
        .labels
        .get_or_insert_default()
        .extend(labels(&stored.revision));
    storage::mount(stored, &mut template)?;
    Ok(template)
}
