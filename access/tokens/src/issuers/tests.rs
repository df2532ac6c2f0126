use std::path::PathBuf;

use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::schedule::Timing;
use crate::testing::{IssuerServer, NOW, Signer, claims, claims_with};

fn name(identity: &TokenIdentity) -> &str {
    identity.caller.client().unwrap()
}

/// Issuers with a task that fetches, which ends with the value.
struct Running {
    issuers: Arc<Issuers>,
    task: tokio::task::JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Running {
    fn start(plans: Vec<IssuerPlan>) -> Self {
        let issuers = Arc::new(Issuers::default());
        issuers.replace(plans);
        let (stop, stopped) = oneshot::channel();
        let running = Arc::clone(&issuers);
        let task = tokio::spawn(async move { running.run(async { drop(stopped.await) }).await });
        Self { issuers, task, stop }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

fn settings(server: &IssuerServer) -> IssuerSettings {
    IssuerSettings {
        issuer: Some(server.url.clone()),
        audiences: vec!["weir".to_owned()],
        ca_file: Some(server.ca_file()),
        ..IssuerSettings::default()
    }
}

/// Returns a plan with short times.
fn plan(settings: &IssuerSettings, refresh: u64, stale: u64, apart: u64) -> IssuerPlan {
    let ms = Duration::from_millis;
    let timing = Timing { refresh: ms(refresh), stale: ms(stale), apart: ms(apart) };
    IssuerPlan { timing, ..IssuerPlan::of(settings, 1).unwrap() }
}

fn token(server: &IssuerServer, signer: &Signer) -> String {
    signer.token("ES256", &claims_with("iss", json!(server.url)))
}

/// Waits until a condition holds, at most ten seconds.
async fn eventually(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), wait).await.unwrap();
}

const HOUR: u64 = 3_600_000;

#[tokio::test]
async fn keys_are_discovered_and_a_verified_token_is_remembered() {
    let signer = Signer::p256(Some("a"));
    let server = IssuerServer::start(&[&signer]).await;
    let running = Running::start(vec![plan(&settings(&server), HOUR, HOUR, 5000)]);
    let token = token(&server, &signer);
    let first = running.issuers.authenticate(&token, NOW).await.unwrap();
    assert_eq!(name(&first), "ada");
    let again = running.issuers.check(&token, NOW).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(running.issuers.check(&token, NOW + 660), Err(TokenError::Expired));
    assert_eq!((server.fetches(), server.authorization()), (1, None));
    let stranger = signer.token("ES256", &claims());
    assert_eq!(running.issuers.authenticate(&stranger, NOW).await, Err(TokenError::UnknownIssuer));
    running.stop().await;
}

#[tokio::test]
async fn a_rotation_under_load_refuses_no_token() {
    let signers = ["a", "b", "c", "d"].map(|id| Signer::p256(Some(id)));
    let server = IssuerServer::start(&[&signers[0]]).await;
    let running = Running::start(vec![plan(&settings(&server), HOUR, HOUR, 50)]);
    let old = token(&server, &signers[0]);
    running.issuers.authenticate(&old, NOW).await.unwrap();
    for signer in &signers[1..] {
        // The issuer publishes a key and uses it at once; the former key leaves.
        server.set_keys(&[signer]);
        let requests = (0..50).map(|number| {
            let claims = claims_with("iss", json!(server.url));
            let token = signer.token_with(&json!({ "alg": "ES256", "kid": signer.id, "n": number }), &claims);
            let issuers = Arc::clone(&running.issuers);
            async move { issuers.authenticate(&token, NOW).await }
        });
        for result in join_all(requests).await {
            assert_eq!(name(&result.unwrap()), "ada");
        }
    }
    assert_eq!(running.issuers.check(&old, NOW), Err(TokenError::UnknownKey));
    assert!(server.fetches() <= 7, "{}", server.fetches());
    running.stop().await;
}

#[tokio::test]
async fn a_key_that_leaves_takes_its_verified_tokens_along() {
    let (one, other) = (Signer::p256(Some("a")), Signer::p256(Some("b")));
    let server = IssuerServer::start(&[&one, &other]).await;
    let running = Running::start(vec![plan(&settings(&server), 20, HOUR, 20)]);
    let (kept, lost) = (token(&server, &one), token(&server, &other));
    let first = running.issuers.authenticate(&kept, NOW).await.unwrap();
    running.issuers.authenticate(&lost, NOW).await.unwrap();
    server.set_keys(&[&one]);
    eventually(|| running.issuers.check(&lost, NOW) == Err(TokenError::UnknownKey)).await;
    assert!(Arc::ptr_eq(&first, &running.issuers.check(&kept, NOW).unwrap()));
    running.stop().await;
}

#[tokio::test]
async fn an_issuer_that_is_away_is_trusted_until_its_keys_are_too_old() {
    let signer = Signer::p256(Some("a"));
    let server = IssuerServer::start(&[&signer]).await;
    let running = Running::start(vec![plan(&settings(&server), 20, 600, 20)]);
    let token = token(&server, &signer);
    running.issuers.authenticate(&token, NOW).await.unwrap();
    let state = || running.issuers.key_sets().pop().unwrap();
    assert_eq!((state().issuer, state().is_usable, state().failed_fetches), (server.url.clone(), true, 0));
    server.set_response(503, Vec::new());
    let failing = server.fetches() + 2;
    eventually(|| server.fetches() >= failing).await;
    running.issuers.check(&token, NOW).unwrap();
    eventually(|| running.issuers.check(&token, NOW) == Err(TokenError::KeysUnavailable)).await;
    let away = state();
    assert!(!away.is_usable && away.failed_fetches >= 2 && away.age >= Duration::from_millis(600), "{away:?}");
    server.set_keys(&[&signer]);
    running.issuers.authenticate(&token, NOW).await.unwrap();
    assert!(state().is_usable && state().age < away.age);
    running.stop().await;
}

/// Lets time pass for all timers at once.
async fn pass(minutes: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60 * minutes)).await;
    tokio::time::resume();
}

/// The settings have their defaults: a fetch every five minutes, and keys that are used for four hours.
#[tokio::test]
async fn an_issuer_may_be_away_for_an_hour_but_not_for_longer_than_its_keys_are_used() {
    let signer = Signer::p256(Some("a"));
    let server = IssuerServer::start(&[&signer]).await;
    let running = Running::start(vec![IssuerPlan::of(&settings(&server), 1).unwrap()]);
    let token = token(&server, &signer);
    running.issuers.authenticate(&token, NOW).await.unwrap();
    let state = || running.issuers.key_sets().pop().unwrap();
    let is_accepted = || running.issuers.check(&token, NOW).is_ok();
    server.set_response(503, Vec::new());
    for minutes in [5; 12].into_iter().chain([170]) {
        let failed = state().failed_fetches;
        pass(minutes).await;
        eventually(|| state().failed_fetches > failed).await;
        assert!(is_accepted(), "{:?}", state());
    }
    assert!(state().age >= Duration::from_secs(230 * 60), "{:?}", state());
    pass(10).await;
    eventually(|| running.issuers.check(&token, NOW) == Err(TokenError::KeysUnavailable)).await;
    server.set_keys(&[&signer]);
    pass(1).await;
    eventually(is_accepted).await;
    running.stop().await;
}

#[tokio::test]
async fn a_flood_of_unknown_keys_causes_one_fetch_per_interval() {
    let (signer, stranger) = (Signer::p256(Some("a")), Signer::p256(Some("z")));
    let server = IssuerServer::start(&[&signer]).await;
    let running = Running::start(vec![plan(&settings(&server), HOUR, HOUR, 300)]);
    let (token, unknown) = (token(&server, &signer), token(&server, &stranger));
    running.issuers.authenticate(&token, NOW).await.unwrap();
    let begin = crate::clock::now();
    let requests = (0..2000).map(|_| running.issuers.authenticate(&unknown, NOW));
    for result in join_all(requests).await {
        assert_eq!(result, Err(TokenError::UnknownKey));
    }
    let intervals = begin.elapsed().as_millis() / 300;
    assert!(server.fetches() as u128 <= 2 + intervals, "{} fetches", server.fetches());
    // A token with a known key is not affected.
    running.issuers.check(&token, NOW).unwrap();
    running.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_wrong_gives_no_keys() {
    let signer = Signer::p256(Some("a"));
    let server = IssuerServer::start(&[&signer]).await;
    let plan = plan(&settings(&server), HOUR, HOUR, 5000);
    let failed = async || crate::fetch::fetch(&plan).await.unwrap_err();
    server.set_response(302, Vec::new());
    assert!(failed().await.ends_with("redirects elsewhere, which is not followed"));
    server.set_response(200, vec![b' '; 300 * 1024]);
    assert!(failed().await.ends_with("sent more than 262144 bytes"));
    server.set_response(200, b"{}".to_vec());
    assert_eq!(failed().await, "the document is not a JSON Web Key Set");
    server.set_named(&format!("{}/keys", server.url), "https://other");
    assert!(failed().await.ends_with("names another issuer"));
    server.set_named("https://169.254.169.254/keys", &server.url);
    assert!(failed().await.starts_with("its jwks_uri is of another server"));
    let untrusted = IssuerPlan::of(&IssuerSettings { ca_file: None, ..settings(&server) }, 1).unwrap();
    assert!(crate::fetch::fetch(&untrusted).await.unwrap_err().contains("certificate"));
}

#[tokio::test]
async fn an_api_server_names_its_issuer_and_receives_the_pods_token() {
    let signer = Signer::p256(Some("a"));
    let server = IssuerServer::start(&[&signer]).await;
    server.set_named("https://10.0.0.1:6443/openid/v1/jwks", "https://kubernetes.default.svc.cluster.local");
    let settings = IssuerSettings {
        kind: IssuerKind::Kubernetes,
        server: Some(server.url.clone()),
        ca_file: Some(server.ca_file()),
        token_file: Some(server.file("token", "secret\n")),
        ..IssuerSettings::default()
    };
    let running = Running::start(vec![plan(&settings, HOUR, HOUR, 5000)]);
    let mut claims = claims_with("iss", json!("https://kubernetes.default.svc.cluster.local"));
    claims["sub"] = json!("system:serviceaccount:ml:batch");
    let identity = running.issuers.authenticate(&signer.token("ES256", &claims), NOW).await.unwrap();
    assert_eq!((name(&identity), &*identity.caller.roles()[0]), ("system:serviceaccount:ml:batch", "namespace:ml"));
    assert_eq!(server.authorization().as_deref(), Some("Bearer secret"));
    running.stop().await;
}

#[tokio::test]
async fn settings_that_stay_keep_their_keys() {
    let signer = Signer::p256(Some("a"));
    let (server, other) = (IssuerServer::start(&[&signer]).await, IssuerServer::start(&[&signer]).await);
    let running = Running::start(vec![]);
    assert!(running.issuers.is_empty());
    let own = IssuerSettings { client_prefix: "own:".to_owned(), ..settings(&server) };
    running.issuers.apply(std::slice::from_ref(&own)).unwrap();
    let token = token(&server, &signer);
    let first = running.issuers.authenticate(&token, NOW).await.unwrap();
    server.set_response(503, Vec::new());
    let added = IssuerSettings { client_prefix: "other:".to_owned(), ..settings(&other) };
    running.issuers.apply(&[own.clone(), added.clone()]).unwrap();
    assert!(Arc::ptr_eq(&first, &running.issuers.check(&token, NOW).unwrap()));
    running.issuers.apply(&[added]).unwrap();
    eventually(|| running.issuers.check(&token, NOW) == Err(TokenError::UnknownIssuer)).await;
    running.stop().await;
}

#[tokio::test]
async fn a_change_of_the_issuers_does_not_cancel_the_fetch_of_one_that_stays() {
    let signer = Signer::p256(Some("a"));
    let (server, other) = (IssuerServer::start(&[&signer]).await, IssuerServer::start(&[&signer]).await);
    // The key set itself is held back, and not the configuration that leads to it.
    let direct = |server: &IssuerServer, prefix: &str| IssuerSettings {
        jwks_uri: Some(format!("{}/keys", server.url)),
        client_prefix: prefix.to_owned(),
        ..settings(server)
    };
    let (own, added) = (direct(&server, "own:"), direct(&other, "other:"));
    let running = Running::start(vec![]);
    let held = server.hold().await;
    running.issuers.apply(std::slice::from_ref(&own)).unwrap();
    eventually(|| server.fetches() == 1).await;
    running.issuers.apply(&[own, added]).unwrap();
    eventually(|| other.fetches() == 1).await;
    drop(held);
    running.issuers.authenticate(&token(&server, &signer), NOW).await.unwrap();
    assert_eq!(server.fetches(), 1);
    running.stop().await;
}

#[test]
fn issuers_whose_names_could_be_equal_are_refused() {
    let issuer = |url: &str, prefix: &str| IssuerSettings {
        issuer: Some(url.to_owned()),
        audiences: vec!["weir".to_owned()],
        client_prefix: prefix.to_owned(),
        ..IssuerSettings::default()
    };
    let checked = |one: &str, other: &str| Issuers::validate(&[issuer("https://a", one), issuer("https://b", other)]);
    for (one, other) in [("", ""), ("", "b:"), ("team-", "team-a-"), ("team-a-", "team-"), ("x", "x")] {
        let error = checked(one, other).unwrap_err();
        assert_eq!(error.place(), (1, "clientPrefix"));
        let expected = format!(
            "two issuers could give the same name: no clientPrefix may begin with another one, as with '{other}' and '{one}'"
        );
        assert_eq!(error.to_string(), expected);
    }
    for (one, other) in [("team-a-", "team-b-"), ("a:", "b:"), ("ab", "ac")] {
        assert_eq!(checked(one, other), Ok(()), "{one} {other}");
    }
}

#[test]
fn wrong_settings_name_the_issuer_and_the_field() {
    let valid = || IssuerSettings {
        issuer: Some("https://a".to_owned()),
        audiences: vec!["weir".to_owned()],
        ..IssuerSettings::default()
    };
    let error = |settings: &[IssuerSettings]| Issuers::default().apply(settings).unwrap_err().to_string();
    let text = |text: &str| Some(text.to_owned());
    for (settings, expected) in [
        (IssuerSettings { issuer: None, ..valid() }, "issuer 1: issuer is absent"),
        (IssuerSettings { issuer: text("http://a"), ..valid() }, "issuer http://a: issuer is not encrypted: use https"),
        (IssuerSettings { audiences: vec![], ..valid() }, "issuer https://a: audiences is empty"),
        (
            IssuerSettings { jwks_uri: text("ftp://a/"), ..valid() },
            "issuer https://a: jwksUri is neither https nor http",
        ),
        (IssuerSettings { client_claim: text("a..b"), ..valid() }, "issuer https://a: clientClaim has 'a..b'"),
        (IssuerSettings { stale_seconds: Some(9), ..valid() }, "issuer https://a: staleSeconds must be between"),
        (IssuerSettings { refresh_seconds: Some(9), ..valid() }, "issuer https://a: refreshSeconds must be between"),
        (
            IssuerSettings { client_prefix: "sso ".to_owned(), ..valid() },
            "issuer https://a: clientPrefix is \"sso \": exp",
        ),
        (IssuerSettings { client_prefix: "system:".to_owned(), ..valid() }, "issuer https://a: clientPrefix is \"sys"),
        (IssuerSettings { roles_prefix: "\n".to_owned(), ..valid() }, "issuer https://a: rolesPrefix has more"),
    ] {
        let error = error(&[settings]);
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(error(&[valid(), valid()]), "two issuers have the same issuer 'https://a'");
    let kubernetes = IssuerSettings { kind: IssuerKind::Kubernetes, ..IssuerSettings::default() };
    let second = IssuerSettings {
        server: text("https://second"),
        issuer: text("https://second"),
        client_prefix: "second:".to_owned(),
        ..kubernetes.clone()
    };
    assert_eq!(error(&[kubernetes.clone(), second]), "two issuers have the same kind 'kubernetes'");
    let issuers = Issuers::default();
    issuers.apply(&[valid(), kubernetes]).unwrap();
    let pod = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
    assert_eq!(issuers.issuers.load()[1].plan.source.ca_file, Some(pod));
}
