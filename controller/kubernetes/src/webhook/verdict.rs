//! What is said of an object that somebody writes. Pure.

use std::collections::HashSet;

use weir_controller::{Cure, FieldError, IgnoredField};

/// Errors and warnings found in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Errors of the manifest, which it is refused for.
    pub(crate) errors: Vec<FieldError>,
    /// Sentences about what does not work now, or has no effect.
    pub(crate) warnings: Vec<String>,
}

/// The answer to a request: refused where there is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Errors that it is refused for.
    pub(crate) errors: Vec<FieldError>,
    /// Sentences for whoever writes it, refused or not.
    pub(crate) warnings: Vec<String>,
}

impl Findings {
    /// The findings of errors: those that the cluster can cure are warnings.
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

    /// Adds errors of fields that have none yet.
    pub(crate) fn with_errors(mut self, more: Vec<FieldError>) -> Self {
        let known = self.errors.iter().map(|error| error.field.clone());
        let mut fields: HashSet<_> = known.collect();
        let more = more.into_iter();
        self.errors.extend(more.filter(|error| fields.insert(error.field.clone())));
        self
    }

    /// Adds the fields that have no effect.
    pub(crate) fn with_ignored(mut self, ignored: &[IgnoredField]) -> Self {
        let each = ignored.iter();
        let told = each.map(|field| format!("{} is ignored: {}", field.field, field.reason));
        self.warnings.extend(told);
        self
    }

    /// The verdict on an object whose spec is new.
    pub(crate) fn verdict(self) -> Verdict {
        Verdict { errors: self.errors, warnings: self.warnings }
    }

    /// The verdict on an object whose spec stays as it was before: it is refused for new errors only, so that what was
    /// let in before can still be labelled, stopped and deleted.
    pub(crate) fn verdict_after(self, before: &Self) -> Verdict {
        let before = before.errors.iter();
        let before: HashSet<_> = before.map(|error| (&*error.field, &*error.message)).collect();
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
    fn what_was_wrong_before_is_a_warning_while_the_spec_stays() {
        let before = findings(&["spec.a"]);
        let verdict = findings(&["spec.a", "metadata.annotations[b]"]).verdict_after(&before);
        assert_eq!(verdict.errors, [FieldError::new("metadata.annotations[b]", "wrong")]);
        assert_eq!(verdict.warnings, ["spec.a: wrong"]);
        let verdict = before.clone().verdict_after(&before);
        assert_eq!(verdict.errors, []);
    }

    /// A review holds tens of thousands. Compared with each other, these would take a minute.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is about the time that it takes")]
    fn many_errors_are_compared_soon() {
        let begun = std::time::Instant::now();
        let fields = (0..100_000).map(|i| format!("spec.predictor.model.env[{i}].name"));
        let errors: Vec<_> = fields.map(|field| FieldError::new(field, "wrong")).collect();
        let twice = Findings::of_errors(errors.clone()).with_errors(errors);
        let verdict = twice.clone().verdict_after(&twice);
        assert_eq!((verdict.errors.len(), verdict.warnings.len()), (0, 100_000));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn what_the_cluster_can_cure_is_a_warning() {
        let missing = FieldError {
            cure: Cure::Cluster,
            ..FieldError::new("spec.predictor.model.runtime", "there is no runtime x")
        };
        let verdict = Findings::of_errors([missing]).verdict();
        assert_eq!(verdict.errors, []);
        assert_eq!(verdict.warnings, ["spec.predictor.model.runtime: there is no runtime x"]);
    }
}
