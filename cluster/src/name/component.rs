//! Components of an InferenceService.

use std::fmt;

/// Component of an InferenceService. Each component has its own revisions, replicas and route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ComponentKind {
    /// The predictor, which every service has.
    #[default]
    Predictor,
    /// The transformer, which receives the service's requests and calls the predictor.
    Transformer,
    /// The explainer, which receives the service's `:explain` requests and calls the predictor.
    Explainer,
}

impl ComponentKind {
    /// Every component of a service, in the order in which they are listed.
    pub const ALL: [Self; 3] = [Self::Predictor, Self::Transformer, Self::Explainer];

    /// Name of the component, as in `spec` and in the names of objects.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Predictor => "predictor",
            Self::Transformer => "transformer",
            Self::Explainer => "explainer",
        }
    }

    /// Returns the component of a name; `None` for any other name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.as_str() == name)
    }
}

impl fmt::Display for ComponentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
