//! Sentences about what the Hub refuses.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::HeaderMap;

use super::address::Address;
use crate::store::StoreError;

/// A response that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubRefusal {
    status: u16,
    /// Header `X-Error-Code`; empty if there is none.
    code: String,
    /// Header `X-Error-Message`; empty if there is none.
    message: String,
}

/// The user's authentication at the Hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HubLogin {
    /// Requests have no token.
    Anonymous,
    /// Requests have the user's token.
    Token,
}

/// Message of the Hub about a token that it does not know.
const INVALID_TOKEN: &str = "Invalid credentials in Authorization header";

/// Message of the Hub about a model that its owners or the Hub withdrew.
const DISABLED: &str = "Access to this resource is disabled.";

/// Header in which the Hub says when its limit on requests is renewed, as in `"api";r=0;t=55`.
const RATE_LIMIT: &str = "ratelimit";

impl HubRefusal {
    pub(super) fn of(response: &Response) -> Self {
        let text = |name: &str| text(response.headers(), name).to_owned();
        Self { status: response.status().as_u16(), code: text("x-error-code"), message: text("x-error-message") }
    }
}

/// Adds to an error without a delay the one that the Hub's limit on requests asks for.
pub(super) fn with_rate_limit(error: StoreError, headers: &HeaderMap) -> StoreError {
    match error {
        StoreError::Retry { reason, after: None } => {
            let after = renewed_in(text(headers, RATE_LIMIT)).map(Duration::from_secs);
            StoreError::Retry { reason, after }
        }
        other @ (StoreError::Retry { .. } | StoreError::Changed | StoreError::Fatal(_)) => other,
    }
}

/// Returns the seconds until an exhausted limit is renewed; `None` if it is not exhausted.
fn renewed_in(rate_limit: &str) -> Option<u64> {
    let parameter = |name: &str| {
        let mut parameters = rate_limit.split([';', ',']).map(str::trim);
        parameters.find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    parameter("t").filter(|_| parameter("r") == Some(0))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the sentence that says why the Hub refused a request about a model and what to do. `page` is the model's page
/// on the Hub, `file` the file that was requested.
pub(super) fn sentence(refusal: &HubRefusal, address: &Address, page: &str, access: HubLogin) -> String {
    let Address { revision, .. } = address;
    match (refusal.code.as_str(), refusal.status, access) {
        ("GatedRepo", _, HubLogin::Anonymous) => {
            format!("the model is gated: accept its licence at {page} and set HF_TOKEN")
        }
        ("GatedRepo", _, HubLogin::Token) => {
            format!("the model is gated: accept its licence at {page} with the account of HF_TOKEN")
        }
        ("RevisionNotFound", _, _) => {
            format!("the model has no branch, tag or commit {revision}: {page} lists them")
        }
        ("EntryNotFound", _, _) => format!("a file is missing in the revision {revision}"),
        _ if refusal.message == DISABLED => "the Hub has disabled this model".to_owned(),
        (_, 401, HubLogin::Token) if refusal.message.starts_with(INVALID_TOKEN) => {
            "the Hub does not accept the token: it expired or was revoked; create another one and set HF_TOKEN"
                .to_owned()
        }
        ("RepoNotFound", _, HubLogin::Anonymous) | (_, 401, HubLogin::Anonymous) => {
            "the Hub has no such model, or it is private: check the name, or set HF_TOKEN".to_owned()
        }
        ("RepoNotFound", _, HubLogin::Token) | (_, 401, HubLogin::Token) => {
            "the Hub has no such model, or the token may not read it: check the name and the account of HF_TOKEN"
                .to_owned()
        }
        (_, 403, HubLogin::Token) => "the token may not read this model: give it the permission to read".to_owned(),
        (_, 403, HubLogin::Anonymous) => "the Hub forbids anonymous requests: set HF_TOKEN".to_owned(),
        (_, 404, _) => "the Hub answered 404: check the name and HF_ENDPOINT".to_owned(),
        (_, status, _) => format!("the Hub answered {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_limit_says_when_it_is_renewed() {
        assert_eq!(renewed_in("\"api\";r=0;t=55"), Some(55));
        assert_eq!(renewed_in("\"api\";r=3;t=55"), None);
        assert_eq!(renewed_in(""), None);
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let address = Address { id: "a/b".to_owned(), revision: "v1".to_owned() };
        let said = |status: u16, code: &str, message: &str, access: HubLogin| {
            let (code, message) = (code.to_owned(), message.to_owned());
            let refusal = HubRefusal { status, code, message };
            sentence(&refusal, &address, "https://hub/a/b", access)
        };
        use HubLogin::{Anonymous, Token};
        for (status, code, message, access, expected) in [
            (401, "GatedRepo", "", Anonymous, "accept its licence at https://hub/a/b and set HF_TOKEN"),
            (403, "GatedRepo", "", Token, "accept its licence at https://hub/a/b with the account of HF_TOKEN"),
            (401, "RepoNotFound", "", Anonymous, "no such model, or it is private: check the name, or set HF_TOKEN"),
            (404, "RepoNotFound", "", Token, "or the token may not read it"),
            (401, "", INVALID_TOKEN, Token, "it expired or was revoked"),
            (404, "RevisionNotFound", "", Anonymous, "no branch, tag or commit v1"),
            (404, "EntryNotFound", "", Anonymous, "a file is missing in the revision v1"),
            (403, "", DISABLED, Anonymous, "the Hub has disabled this model"),
            (403, "", "", Token, "the token may not read this model"),
            (403, "", "", Anonymous, "set HF_TOKEN"),
            (404, "", "", Anonymous, "check the name and HF_ENDPOINT"),
            (418, "", "", Anonymous, "the Hub answered 418"),
        ] {
            let sentence = said(status, code, message, access);
            assert!(sentence.contains(expected), "{status} {code}: {sentence}");
        }
    }
}
