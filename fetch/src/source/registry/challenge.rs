//! Parses the header `WWW-Authenticate` of a registry.

use std::collections::BTreeMap;

/// A way to authenticate that a registry offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token of this server.
    Bearer {
        /// URL of the token server.
        realm: String,
        /// Name of the registry at the token server.
        service: Option<String>,
        /// Permission that the request needs.
        scope: Option<String>,
    },
    /// The user's name and password.
    Basic,
}

/// Returns the first way to authenticate that is supported; `None` if there is none.
pub(super) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    headers.into_iter().find_map(challenge)
}

fn challenge(header: &str) -> Option<Challenge> {
    let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut found = values(parameters);
    Some(Challenge::Bearer {
        realm: found.remove("realm")?,
        service: found.remove("service"),
        scope: found.remove("scope"),
    })
}

/// Parses `name="value",name=value`. A value in quotes may contain commas.
fn values(text: &str) -> BTreeMap<String, String> {
    let (mut found, mut rest) = (BTreeMap::new(), text);
    while let Some((name, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.insert(name.trim_matches([' ', ',']).to_ascii_lowercase(), value.trim().to_owned());
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenges_of_registries_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
            Some(Challenge::Bearer { realm: realm.to_owned(), service, scope })
        };
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let expected =
            bearer("https://auth.docker.io/token", Some("registry.docker.io"), Some("repository:a/b:pull,push"));
        assert_eq!(parse([docker].into_iter()), expected);
        assert_eq!(parse(["bearer realm=https://a/t, service=x"].into_iter()), bearer("https://a/t", Some("x"), None));
        assert_eq!(parse(["Negotiate", "Basic realm=\"x\""].into_iter()), Some(Challenge::Basic));
        assert_eq!(parse(["Bearer service=\"x\""].into_iter()), None);
        assert_eq!(parse(["Bearer realm=\"x"].into_iter()), bearer("x", None, None));
        assert_eq!(parse(std::iter::empty()), None);
    }
}
