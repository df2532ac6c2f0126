//! Groups of the API that can be restricted to callers with a key.

use subtle::ConstantTimeEq;

use crate::error::ServeError;

/// A group of calls that can be restricted, as in Triton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ApiGroup {
    Health,
    Metadata,
    Inference,
    SharedMemory,
    ModelConfig,
    ModelRepository,
    Statistics,
    Trace,
    Logging,
    Metrics,
    Reflection,
}

/// A rule: calls of these groups need this header with this value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restriction {
    pub(crate) groups: Vec<ApiGroup>,
    /// Name of the header or metadata key, in lower case.
    pub(crate) header: String,
    /// The value that the header must have.
    pub(crate) value: String,
}

/// Permission for the calls that control the server (`--control-routes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ControlRoutes {
    #[default]
    Open,
    Closed,
}

impl ControlRoutes {
    /// Checks that calls of a group are allowed.
    ///
    /// # Errors
    /// [`ServeError::Forbidden`] if they are closed.
    pub(crate) fn check(self, group: ApiGroup) -> Result<(), ServeError> {
        match self {
            Self::Closed if group.is_control() => Err(ServeError::Forbidden(group.name())),
            Self::Closed | Self::Open => Ok(()),
        }
    }

    /// Checks that a call may report on all models at once.
    ///
    /// # Errors
    /// [`ServeError::Forbidden`] if control calls are closed.
    pub(crate) fn check_all_models(self) -> Result<(), ServeError> {
        match self {
            Self::Closed => Err(ServeError::Forbidden("statistics of all models")),
            Self::Open => Ok(()),
        }
    }
}

impl ApiGroup {
    /// True for calls that change the server or give information about its other models.
    pub(crate) const fn is_control(self) -> bool {
        match self {
            Self::SharedMemory | Self::ModelRepository | Self::Trace | Self::Logging => true,
            Self::Health
            | Self::Metadata
            | Self::Inference
            | Self::ModelConfig
            | Self::Statistics
            | Self::Metrics
            | Self::Reflection => false,
        }
    }

    pub(crate) const ALL: [Self; 11] = [
        Self::Health,
        Self::Metadata,
        Self::Inference,
        Self::SharedMemory,
        Self::ModelConfig,
        Self::ModelRepository,
        Self::Statistics,
        Self::Trace,
        Self::Logging,
        Self::Metrics,
        Self::Reflection,
    ];

    /// Name of the group in flags.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Metadata => "metadata",
            Self::Inference => "inference",
            Self::SharedMemory => "shared-memory",
            Self::ModelConfig => "model-config",
            Self::ModelRepository => "model-repository",
            Self::Statistics => "statistics",
            Self::Trace => "trace",
            Self::Logging => "logging",
            Self::Metrics => "metrics",
            Self::Reflection => "reflection",
        }
    }
}

/// Returns the header that a call of `group` needs and lacks; `given` returns the value of one of the call's headers.
pub(crate) fn missing_key<'a, 'b>(
    rules: &'a [Restriction],
    group: ApiGroup,
    given: impl Fn(&str) -> Option<&'b str>,
) -> Option<&'a str> {
    let rule = rules.iter().find(|rule| rule.groups.contains(&group))?;
    let Some(given) = given(&rule.header) else {
        return Some(&rule.header);
    };
    // The comparison takes constant time, so that its duration does not reveal how much of the value was right.
    let is_right = bool::from(given.as_bytes().ct_eq(rule.value.as_bytes()));
    (!is_right).then_some(&rule.header)
}
