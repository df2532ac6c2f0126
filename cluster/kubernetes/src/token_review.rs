//! Reviews of tokens by the API server.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo};
use kube::api::{Api, PostParams};
use kube::{Client, core::ObjectMeta};
use weir_cluster::ClusterError;

use crate::error;

/// Maximum time of a review, so that a caller does not wait for an API server that is down.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Beginning of the name of a ServiceAccount as a user, before its namespace.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Extra fields of a user whose token is bound to a pod.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// The pod of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPod {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod, which no later pod of the same name has.
    pub uid: String,
}

/// Returns the user that a token proves for an audience; None if the API server does not accept the token.
///
/// # Errors
/// [`ClusterError::Denied`] without the right to create TokenReviews, [`ClusterError::Unavailable`] if the API server
/// does not answer within five seconds.
pub async fn user_of_token(client: &Client, token: &str, audience: &str) -> Result<Option<String>, ClusterError> {
    Ok(reviewed(client, token, audience).await?.and_then(|user| user.username))
}

/// Returns the pod that a token of a ServiceAccount is bound to, as the tokens that kubelets mount are; None if the API
/// server does not accept the token for the audience, or it is bound to no pod.
///
/// # Errors
/// The same as for [`user_of_token`].
pub async fn pod_of_token(client: &Client, token: &str, audience: &str) -> Result<Option<TokenPod>, ClusterError> {
    Ok(reviewed(client, token, audience).await?.as_ref().and_then(pod))
}

async fn reviewed(client: &Client, token: &str, audience: &str) -> Result<Option<UserInfo>, ClusterError> {
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

/// Returns the pod of the user of a token. The API server sets all of these values: no user can choose the name of a
/// ServiceAccount or the extra fields of its token.
fn pod(user: &UserInfo) -> Option<TokenPod> {
    let account = user.username.as_ref()?.strip_prefix(SERVICE_ACCOUNT)?;
    let (namespace, _) = account.split_once(':')?;
    let extra = |key: &str| match user.extra.as_ref()?.get(key)?.as_slice() {
        [value] => Some(value.clone()),
        _ => None,
    };
    Some(TokenPod { namespace: namespace.to_owned(), name: extra(POD_NAME)?, uid: extra(POD_UID)? })
}

/// Returns the user of a status; None unless the token is valid for the audience. An API server without support for
/// audiences names none, which means that it has not checked the token's audience.
fn user(status: TokenReviewStatus, audience: &str) -> Option<UserInfo> {
    let is_for = status.audiences.iter().flatten().any(|found| found == audience);
    let is_valid = status.authenticated == Some(true) && is_for;
    status.user.filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn user_in(status: Value) -> Option<String> {
        user(serde_json::from_value(status).unwrap(), "weir-model-cache")?.username
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

    #[test]
    fn only_a_token_that_is_bound_to_one_pod_names_it() {
        let of = |username: &str, extra: Value| {
            pod(&serde_json::from_value(json!({ "username": username, "extra": extra })).unwrap())
        };
        let bound = |name: Value| json!({ POD_NAME: name, POD_UID: ["u"] });
        let expected = TokenPod { namespace: "team".to_owned(), name: "a".to_owned(), uid: "u".to_owned() };
        assert_eq!(of("system:serviceaccount:team:default", bound(json!(["a"]))), Some(expected));
        assert_eq!(of("system:serviceaccount:team:default", bound(json!(["a", "b"]))), None);
        assert_eq!(of("system:serviceaccount:team:default", json!({ POD_NAME: ["a"] })), None);
        assert_eq!(of("system:serviceaccount:team:default", Value::Null), None);
        assert_eq!(of("system:serviceaccount:team", bound(json!(["a"]))), None);
        assert_eq!(of("alice", bound(json!(["a"]))), None);
    }
}
