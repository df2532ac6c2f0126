//! Reviews of tokens that a real API server has signed.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use weir_cluster_kubernetes::user_of_token;

use crate::api_server::unless_there;
use crate::server;

const NAMESPACE: &str = "token-reviews";

/// Returns a token of the ServiceAccount `pod` for an audience, as the kubelet mounts it.
async fn token(admin: &Client, audience: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
    let spec = TokenRequestSpec { audiences: Some(vec![audience.to_owned()]), ..TokenRequestSpec::default() };
    let request = TokenRequest { metadata: ObjectMeta::default(), spec: Some(spec), status: None };
    let made = accounts.create_token_request("pod", &PostParams::default(), &request).await;
    made.unwrap().status.unwrap().token.unwrap()
}

#[tokio::test]
async fn a_token_proves_its_service_account_for_its_audience_alone() {
    let admin = server::client().await;
    server::namespace(&admin, NAMESPACE).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
    let metadata = ObjectMeta { name: Some("pod".to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    unless_there(accounts.create(&PostParams::default(), &account).await);
    // The only right of the model cache in the chart.
    let review = PolicyRule {
        api_groups: Some(vec!["authentication.k8s.io".to_owned()]),
        resources: Some(vec!["tokenreviews".to_owned()]),
        verbs: vec!["create".to_owned()],
        ..PolicyRule::default()
    };
    let cache = server::client_with("model-cache", vec![review]).await;
    let user = async |token: &str| user_of_token(&cache, token, "weir-model-cache").await.unwrap();
    let valid = token(&admin, "weir-model-cache").await;
    assert_eq!(user(&valid).await.as_deref(), Some("system:serviceaccount:token-reviews:pod"));
    assert_eq!(user(&token(&admin, "https://kubernetes.default.svc").await).await, None);
    for other in ["guess", &valid[..valid.len() - 8]] {
        assert_eq!(user(other).await, None);
    }
    let without_right = server::client_with("no-reviews", Vec::new()).await;
    let refused = user_of_token(&without_right, &valid, "weir-model-cache").await.unwrap_err();
    // No part of a token reaches a log or a client by an error.
    assert!(format!("{refused:?}").contains("tokenreviews") && !format!("{refused:?}").contains(&valid[..20]));
}
