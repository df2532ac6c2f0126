//! The validating webhook: what the controller would refuse is refused when it is applied.
//!
//! ```text
//!   API server ─ TLS ─► port ─► request ─► rules, those of the controller ─► response
//!                        ▲
//!   Secret ─► serving pair                  rotation, where this process leads ─► Secret, caBundle
//! ```
//!
//! The API server asks it only while it answers: what passes unasked is told by the service's conditions.

mod certificate;
mod port;
mod request;
mod resolver;
mod response;
mod rotation;
mod rules;
mod secret;
mod taken_hosts;
mod trust;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_controller::{Declaration, Leadership, Platform};

use resolver::Resolver;
use rotation::{Rotation, Schedule};
use rules::Rules;

/// Name of the webhook's Service, Secret and ValidatingWebhookConfiguration, as the chart has them.
const NAME: &str = "weir-webhook";

/// Life of a certificate. Its follower is made after two thirds, so that a cluster may be off for a month.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// Time from the moment that the API server is told of a certificate's authority until it is used: several API servers
/// hear of it each by a watch of its own, in seconds even where they are busy.
const SETTLE: Duration = Duration::from_secs(60);

/// Settings of the webhook.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Namespace and name of the Secret with the certificates.
    pub secret: (String, String),
    /// Name of the ValidatingWebhookConfiguration.
    pub configuration: String,
    /// Names and addresses by which API servers call it.
    pub names: Vec<String>,
    /// Life of a certificate.
    pub lifetime: Duration,
    /// Time from the moment that the API server is told of a certificate's authority until it is used.
    pub settle: Duration,
}

/// The validating webhook of one process.
pub struct Webhook {
    client: Client,
    rules: Rules,
    options: WebhookOptions,
}

impl WebhookOptions {
    /// The settings of the chart, for Weir's namespace.
    #[must_use]
    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            secret: (namespace.to_owned(), NAME.to_owned()),
            configuration: NAME.to_owned(),
            names: vec![format!("{NAME}.{namespace}.svc")],
            lifetime: LIFETIME,
            settle: SETTLE,
        }
    }
}

impl Webhook {
    /// A webhook with the rules of the controller's declared services.
    #[must_use]
    pub fn new(
        client: Client,
        declaration: watch::Receiver<Arc<Declaration>>,
        platform: Platform,
        options: WebhookOptions,
    ) -> Self {
        Self {
            client,
            rules: Rules::new(declaration, platform),
            options,
        }
    }

    /// Answers on this port until `stop`. The process that leads keeps certificates valid, and API servers told of them.
    pub async fn serve(
        self,
        listener: TcpListener,
        leadership: watch::Receiver<Leadership>,
        stop: CancellationToken,
    ) {
        let resolver = Arc::<Resolver>::default();
        let schedule = Schedule {
            lifetime: self.options.lifetime,
            settle: self.options.settle,
        };
        let rotation = Rotation::new(self.client, self.options, schedule, resolver.clone());
        let rotating = rotation.run(leadership);
        let answering = port::serve(listener, self.rules, resolver, stop.clone());
        tokio::select! {
            () = answering => {}
            () = rotating => {}
        }
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Webhook");
        text.field("options", &self.options).finish_non_exhaustive()
    }
}
