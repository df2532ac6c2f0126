//! Groups of the API that only callers with a key may use.

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
}

/// A rule: calls of these groups need that header with that value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restriction {
    pub(crate) groups: Vec<ApiGroup>,
    /// The header or metadata key, in lower case.
    pub(crate) header: String,
    /// The value that the header must have.
    pub(crate) value: String,
}

impl ApiGroup {
    pub(crate) const ALL: [Self; 9] = [
        Self::Health,
        Self::Metadata,
        Self::Inference,
        Self::SharedMemory,
        Self::ModelConfig,
        Self::ModelRepository,
        Self::Statistics,
        Self::Trace,
        Self::Logging,
    ];

    /// The group's name in flags.
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
        }
    }
}

/// The header that a call of `group` lacks; `given` returns the value of a header of the call.
pub(crate) fn missing_key<'a, 'b>(
    rules: &'a [Restriction],
    group: ApiGroup,
    given: impl Fn(&str) -> Option<&'b str>,
) -> Option<&'a str> {
    let rule = rules.iter().find(|rule| rule.groups.contains(&group))?;
    (given(&rule.header) != Some(&rule.value)).then_some(&rule.header)
}
