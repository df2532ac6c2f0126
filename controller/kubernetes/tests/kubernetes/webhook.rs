//! Webhook behind a real API server, with the chart's configuration.

mod answering;
mod certificates;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_cluster_kubernetes::{Kubernetes, Options};
use weir_cluster_tls_port::CertificateOptions;
use weir_controller::{Leadership, Platform, Source};
use weir_controller_kubernetes::{KubernetesSource, Webhook, webhook_certificates};

use crate::api_server::until;
use crate::chart::rendered;
use crate::world::{World, service};

/// Webhook that answers until this is dropped.
struct Answering {
    port: u16,
    _leadership: watch::Sender<Leadership>,
    _stop: DropGuard,
}

impl World {
    /// Starts a webhook on this port; 0 takes a free one.
    async fn webhook(&self, port: u16, leadership: Leadership, options: CertificateOptions) -> Answering {
        let cluster =
            Options { namespace: self.namespace.clone(), watched: Some(self.namespace.clone()), ..Options::default() };
        let cluster = Kubernetes::connect(self.client.clone(), cluster).await.unwrap();
        let platform = Platform::new("example.com");
        let source = KubernetesSource::connect(self.client.clone(), cluster, platform.clone(), "test");
        let source = source.await.unwrap();
        let webhook = Webhook::new(self.client.clone(), source.watch(), platform, options);
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let leads = watch::Sender::new(leadership);
        let receiver = leads.subscribe();
        let stop = CancellationToken::new();
        let until = stop.clone();
        tokio::spawn(async move {
            // Dropping the source would end the declaration.
            let _source = source;
            webhook.serve(listener, receiver, until).await;
        });
        Answering { port, _leadership: leads, _stop: stop.drop_guard() }
    }

    /// Returns options under which the webhook serves this namespace alone.
    fn webhook_options(&self) -> CertificateOptions {
        let name = format!("weir-webhook-{}", self.namespace);
        CertificateOptions {
            secret: (self.namespace.clone(), "weir-webhook".to_owned()),
            called_by: vec![name],
            names: vec!["127.0.0.1".to_owned()],
            settle: Duration::from_secs(1),
            ..webhook_certificates(&self.namespace)
        }
    }

    fn configurations(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies the chart's configuration, for this namespace and a webhook on this local port.
    async fn configure_webhook(&self, port: u16) {
        let watched = format!("watchNamespace={}", self.namespace);
        // The longest timeout, because the API server shares a busy machine with the tests.
        let settings = [watched.as_str(), "webhook.timeoutSeconds=30"];
        let mut all = rendered("ValidatingWebhookConfiguration", &self.namespace, &settings);
        let mut configuration = all.remove(0);
        configuration["metadata"] = json!({"name": self.webhook_options().called_by[0]});
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"] = json!({"url": format!("https://127.0.0.1:{port}/validate")});
        }
        let configuration = serde_json::from_value(configuration).unwrap();
        let (api, params) = (self.configurations(), PostParams::default());
        api.create(&params, &configuration).await.unwrap();
    }

    /// Waits until the API server calls the webhook and applies its verdict.
    async fn until_checked(&self) {
        let probe = wrong("probe");
        let mut params = PatchParams::apply("user");
        // The dry run keeps an admitted probe from being stored, because for stored objects only new errors are
        // refused.
        params.dry_run = true;
        let services = self.services();
        let is_refused = async || services.patch("probe", &params, &Patch::Apply(&probe)).await.is_err();
        until("a refusal", is_refused).await;
    }

    /// Returns the authorities that the API server trusts, in PEM.
    async fn trusted(&self) -> String {
        let found = self.configurations().get(&self.webhook_options().called_by[0]).await.unwrap();
        let bundles = found.webhooks.into_iter().flatten();
        let bundles = bundles.filter_map(|webhook| webhook.client_config.ca_bundle);
        bundles.map(|bundle| String::from_utf8(bundle.0).unwrap()).collect()
    }

    /// Runs kubectl with an object; returns its standard error.
    fn kubectl(&self, arguments: &[&str], object: &Value) -> String {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["-n", &self.namespace, "--kubeconfig", &crate::api_server::kubeconfig()]);
        kubectl.args(arguments).args(["-f", "-"]);
        kubectl.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(object.to_string().as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Returns a service with an error that the schema accepts, because it leaves most of a pod unchecked.
fn wrong(name: &str) -> Value {
    service(name, "", json!({"affinity": {"nodeAfinity": {}}}))
}
