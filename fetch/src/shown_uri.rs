//! URIs in messages, which must not contain secrets.

/// Returns a URI without its credentials, query and fragment, which may be secret, for messages. Accepts any text, even
/// if it is not a URI that can be fetched.
#[must_use]
pub fn without_secrets(uri: &str) -> String {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let (plain, _) = uri.split_at(end);
    let Some((scheme, rest)) = plain.split_once("://") else {
        return plain.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_without_secrets_are_shown_unchanged() {
        let shown = [
            ("https://me:secret@a:8/m@1/x.pt?y#z", "https://a:8/m@1/x.pt"),
            ("pvc://claim/path", "pvc://claim/path"),
            ("s3://key:secret@bucket", "s3://bucket"),
            ("models/digits", "models/digits"),
            ("", ""),
        ];
        for (uri, expected) in shown {
            assert_eq!(without_secrets(uri), expected);
        }
    }
}
