//! Parts of the API closed to callers without a key.

/// A part of the API that can be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiGroup {
    /// Liveness and readiness.
    Health,
    /// Server and model metadata.
    Metadata,
    /// Inference.
    Inference,
    /// Shared memory.
    SharedMemory,
    /// Model configuration.
    ModelConfig,
    /// Repository index, load and unload.
    ModelRepository,
    /// Statistics.
    Statistics,
    /// Trace settings.
    Trace,
    /// Log settings.
    Logging,
}

/// One rule: these groups want that header with that value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// What is closed.
    pub groups: Vec<ApiGroup>,
    /// The header or metadata key, in lower case.
    pub header: String,
    /// The value it must have.
    pub value: String,
}

impl ApiGroup {
    /// Every group.
    pub const ALL: [Self; 9] = [
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

    /// Its name in flags.
    #[must_use]
    pub const fn name(self) -> &'static str {
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

/// `GROUP,…:HEADER=VALUE`.
pub(super) fn http(text: &str) -> Result<Restriction, String> {
    rule(text, "")
}

/// `GROUP,…:KEY=VALUE`; the metadata key is `triton-grpc-protocol-KEY`.
pub(super) fn grpc(text: &str) -> Result<Restriction, String> {
    rule(text, "triton-grpc-protocol-")
}

fn rule(text: &str, prefix: &str) -> Result<Restriction, String> {
    let wrong = || "expected GROUP,…:NAME=VALUE".to_owned();
    let (groups, key) = text.split_once(':').ok_or_else(wrong)?;
    let (name, value) = key.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(Restriction {
        groups: groups.split(',').map(group).collect::<Result<_, _>>()?,
        header: format!("{prefix}{name}").to_ascii_lowercase(),
        value: value.to_owned(),
    })
}

fn group(name: &str) -> Result<ApiGroup, String> {
    let found = ApiGroup::ALL.into_iter().find(|group| group.name() == name);
    found.ok_or_else(|| {
        let known = ApiGroup::ALL.map(ApiGroup::name).join(", ");
        format!("unknown group '{name}', expected one of {known}")
    })
}

/// Groups closed by more than one rule: which key would open them could not be told.
pub(super) fn twice(rules: &[Restriction]) -> impl Iterator<Item = ApiGroup> + '_ {
    let closed = |group: &ApiGroup| {
        rules
            .iter()
            .flat_map(|rule| &rule.groups)
            .filter(|other| *other == group)
            .count()
    };
    ApiGroup::ALL
        .into_iter()
        .filter(move |group| closed(group) > 1)
}

/// The header a call of `group` lacks; `given` gives the value of a header that came with it.
pub fn missing_key<'a, 'b>(
    rules: &'a [Restriction],
    group: ApiGroup,
    given: impl Fn(&str) -> Option<&'b str>,
) -> Option<&'a str> {
    let rule = rules.iter().find(|rule| rule.groups.contains(&group))?;
    (given(&rule.header) != Some(&rule.value)).then_some(&rule.header)
}
