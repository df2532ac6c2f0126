//! Reviews of tokens by the API server.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::{Api, PostParams};
use kube::{Client, core::ObjectMeta};
use weir_cluster::ClusterError;

use crate::error;

/// Maximum time of a review. A caller that waits has better things to do than to wait for an API server that is down.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the user that a token proves for an audience; None if the API server does not accept the token.
///
/// # Errors
/// [`ClusterError::Denied`] without the right to create TokenReviews, [`ClusterError::Unavailable`] if the API server does
/// not answer within five seconds.
pub async fn user_of_token(client: &Client, token: &str, audience: &str) -> Result<Option<String>, ClusterError> {
    let review = TokenReview {
        metadata: ObjectMeta::default(),
        spec: TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![audience.to_owned()]) },
        status: None,
    };
    let (api, params) = (Api::<TokenReview>::all(client.clone()), PostParams::default());
    let created = tokio::time::timeout(TIMEOUT, api.create(&params, &review)).await;
    let late = |_| ClusterError::Unavailable {
        what: "the Kubernetes API server".to_owned(),
        source: "no answer within five seconds".into(),
    };
    let reviewed = created.map_err(late)?.map_err(|e| error::of("TokenReview", e))?;
    Ok(reviewed.status.and_then(|status| user(status, audience)))
}

/// Returns the user of a status; None unless the token is valid for the audience. An API server that knows no audiences
/// names none, and has then compared the token with none.
fn user(status: TokenReviewStatus, audience: &str) -> Option<String> {
    let is_for = status.audiences.iter().flatten().any(|found| found == audience);
    let is_valid = status.authenticated == Some(true) && is_for;
    status.user.and_then(|user| user.username).filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn user_in(status: Value) -> Option<String> {
        user(serde_json::from_value(status).unwrap(), "weir-model-cache")
    }

    #[test]
    fn a_token_counts_for_its_audience_only() {
        let name = "system:serviceaccount:team:default";
        let of = |valid: bool, audiences: Value| {
            user_in(json!({ "authenticated": valid, "audiences": audiences, "user": { "username": name } }))
        };
        assert_eq!(of(true, json!(["weir-model-cache"])).as_deref(), Some(name));
        assert_eq!(of(true, json!(["https://kubernetes.default.svc"])), None);
        assert_eq!(of(true, Value::Null), None);
        assert_eq!(of(false, json!(["weir-model-cache"])), None);
        assert_eq!(user_in(json!({})), None);
    }
}
