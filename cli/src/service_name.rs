//! Names of services as users write them.

use std::collections::BTreeSet;

use weir_cluster::{ServiceName, nearest};

use crate::error::CliError;

/// Namespace of a service whose name is given without one.
const DEFAULT_NAMESPACE: &str = weir_controller::DEFAULT_NAMESPACE;

/// Parses `NAME` or `NAMESPACE/NAME`.
///
/// # Errors
/// [`CliError::Usage`] if the text is not a valid service name.
pub(crate) fn parse(text: &str) -> Result<ServiceName, CliError> {
    let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
    ServiceName::new(namespace, name).map_err(|error| {
        CliError::Usage(format!("{text:?} is not a service name; write NAME or NAMESPACE/NAME: {error}"))
    })
}

/// Returns the error for an unknown service. It suggests the most similar name and lists the known services; `have`
/// says what the service lacks, for instance `has logs`.
pub(crate) fn unknown(service: &ServiceName, known: &BTreeSet<ServiceName>, have: &str) -> CliError {
    let names: Vec<String> = known.iter().map(ToString::to_string).collect();
    let all = match names[..] {
        [] => "there are no known services".to_owned(),
        [_, ..] => format!("known services: {}", names.join(", ")),
    };
    let meant = nearest(names.iter().map(String::as_str), &service.to_string());
    let meant = meant.map_or_else(String::new, |name| format!(" did you mean {name}?"));
    CliError::Usage(format!("no service {service} {have};{meant} {all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_a_namespace_are_parsed() {
        let name = |text: &str| parse(text).map(|name| name.to_string()).ok();
        assert_eq!(name("digits").as_deref(), Some("default/digits"));
        assert_eq!(name("team/digits").as_deref(), Some("team/digits"));
        assert_eq!(name("Digits"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn the_error_for_an_unknown_service_suggests_the_nearest_and_lists_all() {
        let known = ["digits", "minilm"].map(|name| parse(name).unwrap());
        let error = |text: &str, known: &[ServiceName]| {
            let known = known.iter().cloned().collect();
            unknown(&parse(text).unwrap(), &known, "has logs").to_string()
        };
        assert_eq!(
            error("digit", &known),
            "no service default/digit has logs; did you mean default/digits? known services: default/digits, \
             default/minilm"
        );
        assert_eq!(error("x", &[]), "no service default/x has logs; there are no known services");
    }
}
