//! The field `version_policy` of a configuration.

use std::collections::BTreeSet;

use weir_protocol::grpc::proto::ModelConfig;
use weir_protocol::grpc::proto::model_version_policy::PolicyChoice;

use super::ConfigError;

/// The policy that selects the versions of a model to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionPolicy {
    /// This number of the highest versions; at least 1.
    Latest(usize),
    All,
    /// These versions, if they exist; at least one.
    Specific(BTreeSet<u64>),
}

impl VersionPolicy {
    /// Returns the versions to serve out of those available.
    pub(crate) fn choose(&self, available: &BTreeSet<u64>) -> BTreeSet<u64> {
        match self {
            Self::Latest(count) => available.iter().rev().take(*count).copied().collect(),
            Self::All => available.clone(),
            Self::Specific(versions) => available.intersection(versions).copied().collect(),
        }
    }
}

/// Parses the policy of a normalised configuration.
pub(super) fn parse(config: &ModelConfig) -> Result<VersionPolicy, ConfigError> {
    let choice = config.version_policy.as_ref().and_then(|policy| policy.policy_choice.as_ref());
    match choice {
        None => Ok(VersionPolicy::Latest(1)),
        Some(PolicyChoice::All(_)) => Ok(VersionPolicy::All),
        Some(PolicyChoice::Latest(latest)) => Ok(VersionPolicy::Latest(latest.num_versions.max(1) as usize)),
        Some(PolicyChoice::Specific(specific)) => {
            let versions = specific.versions.iter().map(|&version| u64::try_from(version));
            match versions.collect::<Result<BTreeSet<_>, _>>() {
                Ok(versions) if !versions.is_empty() => Ok(VersionPolicy::Specific(versions)),
                Ok(_) | Err(_) => Err(ConfigError::Invalid(format!(
                    "version_policy.specific must list versions that are not negative for {}",
                    config.name
                ))),
            }
        }
    }
}
