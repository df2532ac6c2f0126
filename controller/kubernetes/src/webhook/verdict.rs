//! Verdict on an object that is being written. Pure.

use std::collections::HashSet;

use weir_controller::{Cure, FieldError, IgnoredField};

/// Errors and warnings that were found in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Errors in the manifest, for which the object is refused.
    pub(crate) errors: Vec<FieldError>,
    /// Sentences about what does not work now, or has no effect.
    pub(crate) warnings: Vec<String>,
}

/// Answer to a request: a refusal if there is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Errors for which the object is refused.
    pub(crate) errors: Vec<FieldError>,
    /// Sentences that the client gets in any case.
    pub(crate) warnings: Vec<String>,
}

impl Findings {
    /// Returns the findings for these errors. Errors that a change of the cluster can fix are warnings.
    pub(crate) fn of_errors(errors: impl IntoIterator<Item = FieldError>) -> Self {
        let mut findings = Self::default();
        for error in errors {
            match error.cure {
                Cure::Manifest => findings.errors.push(error),
                Cure::Cluster => findings.warnings.push(error.to_string()),
            }
        }
        findings
    }

    /// Adds errors in fields that have none yet.
    pub(crate) fn with_errors(mut self, more: Vec<FieldError>) -> Self {
        let known = self.errors.iter().map(|error| error.field.clone());
        let mut fields: HashSet<_> = known.collect();
        let more = more.into_iter();
        self.errors.extend(more.filter(|error| fields.insert(error.field.clone())));
        self
    }

    /// Adds the findings about another component of the service. Findings about the whole service are the same,
    /// and are added once.
    pub(crate) fn and(mut self, other: Self) -> Self {
        let known: HashSet<_> = self.errors.iter().map(ToString::to_string).collect();
        self.errors.extend(other.errors.into_iter().filter(|error| !known.contains(&error.to_string())));
        let known: HashSet<_> = self.warnings.iter().cloned().collect();
        self.warnings.extend(other.warnings.into_iter().filter(|warning| !known.contains(warning)));
        self
    }

    /// Adds the fields that have no effect.
    pub(crate) fn with_ignored(mut self, ignored: &[IgnoredField]) -> Self {
        let each = ignored.iter();
        let sentences = each.map(|field| format!("{} is ignored: {}", field.field, field.reason));
        self.warnings.extend(sentences);
        self
    }

    /// Returns the verdict on an object whose spec is new.
    pub(crate) fn verdict(self) -> Verdict {
        Verdict { errors: self.errors, warnings: self.warnings }
    }

    /// Returns the verdict on an object whose spec is unchanged. It is refused for new errors only, so that an object
    /// admitted earlier can still be labelled, stopped and deleted.
    pub(crate) fn verdict_after(self, before: &Self) -> Verdict {
        let before: HashSet<_> = before.errors.iter().map(|error| (&*error.field, &*error.message)).collect();
        let (old, new): (Vec<_>, Vec<_>) =
            self.errors.into_iter().partition(|error| before.contains(&(&*error.field, &*error.message)));
        let mut warnings = self.warnings;
        warnings.extend(old.iter().map(ToString::to_string));
        Verdict { errors: new, warnings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(errors: &[&str]) -> Findings {
        Findings::of_errors(errors.iter().map(|field| FieldError::new(*field, "wrong")))
    }

    #[test]
    fn errors_from_before_are_warnings_while_the_spec_is_unchanged() {
        let before = findings(&["spec.a"]);
        let verdict = findings(&["spec.a", "metadata.annotations[b]"]).verdict_after(&before);
        assert_eq!(verdict.errors, [FieldError::new("metadata.annotations[b]", "wrong")]);
        assert_eq!(verdict.warnings, ["spec.a: wrong"]);
        let verdict = before.clone().verdict_after(&before);
        assert_eq!(verdict.errors, []);
    }

    /// A review may have tens of thousands of errors, and comparing each with the others would take a minute.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test measures elapsed time")]
    fn many_errors_are_compared_quickly() {
        let begun = std::time::Instant::now();
        let fields = (0..100_000).map(|i| format!("spec.predictor.model.env[{i}].name"));
        let errors: Vec<_> = fields.map(|field| FieldError::new(field, "wrong")).collect();
        let twice = Findings::of_errors(errors.clone()).with_errors(errors);
        let verdict = twice.clone().verdict_after(&twice);
        assert_eq!((verdict.errors.len(), verdict.warnings.len()), (0, 100_000));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn errors_that_the_cluster_can_fix_are_warnings() {
        let missing = FieldError {
            cure: Cure::Cluster,
            ..FieldError::new("spec.predictor.model.runtime", "there is no runtime x")
        };
        let verdict = Findings::of_errors([missing]).verdict();
        assert_eq!(verdict.errors, []);
        assert_eq!(verdict.warnings, ["spec.predictor.model.runtime: there is no runtime x"]);
    }
}
