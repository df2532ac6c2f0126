//! Connects to a bucket with its credentials.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as S3Key};
use object_store::azure::{AzureConfigKey as AzureKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey as GcsKey};
use object_store::{ObjectStore, RetryConfig, StaticCredentialProvider};

use super::Login;
use super::refusal::Cause;
use super::service::Connector;
use super::{BucketSource, Provider};
use crate::access::authorities;
use crate::access::credentials::{
    Access, AzureIdentity, AzureSettings, GcsIdentity, GcsSettings, S3Identity, S3Settings, S3Style,
};
use crate::limits::Limits;
use crate::web::{Trust, WebClient};

/// Settings of a bucket's service.
pub(super) struct Connection {
    bucket: String,
    settings: Settings,
    connector: Connector,
}

enum Settings {
    S3(S3Settings),
    Gcs(GcsSettings),
    Azure(AzureSettings, String),
}

/// Variables by which the tools of Amazon and Google name other metadata services.
const METADATA_HOSTS: [&str; 4] =
    ["AWS_EC2_METADATA_SERVICE_ENDPOINT", "GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"];

impl Connection {
    pub(super) fn new(source: &BucketSource, access: &Access, limits: &Limits) -> Result<Self, String> {
        let settings = match &source.provider {
            Provider::S3 => Settings::S3(S3Settings::of(access)?),
            Provider::Gcs => Settings::Gcs(GcsSettings::of(access)?),
            Provider::Azure { account } => Settings::Azure(AzureSettings::of(access)?, account.clone()),
        };
        let trust = match &settings {
            Settings::S3(settings) if settings.trust != Trust::System => settings.trust.clone(),
            Settings::S3(_) | Settings::Gcs(_) | Settings::Azure(..) => authorities::trust(access)?,
        };
        let named = METADATA_HOSTS.iter().filter_map(|name| access.variable(name).map(str::to_owned));
        let connector = Connector::new(WebClient::new(limits, &trust)?, named)?;
        Ok(Self { bucket: source.bucket.clone(), settings, connector })
    }

    /// Returns the ways to log in, in the order in which they are tried. Where nothing is given, an unsigned request
    /// comes first: public buckets need nothing else, and most machines have no identity.
    pub(super) fn logins(&self) -> Vec<Login> {
        let is_unknown = match &self.settings {
            Settings::S3(settings) => settings.identity == S3Identity::Unknown,
            Settings::Gcs(settings) => settings.identity == GcsIdentity::Unknown,
            Settings::Azure(settings, _) => settings.identity == AzureIdentity::Unknown,
        };
        if is_unknown {
            return vec![Login::Anonymous, Login::Machine];
        }
        let is_anonymous = match &self.settings {
            Settings::S3(settings) => settings.identity == S3Identity::Anonymous,
            Settings::Gcs(settings) => settings.identity == GcsIdentity::Anonymous,
            Settings::Azure(..) => false,
        };
        vec![if is_anonymous { Login::Anonymous } else { Login::Given }]
    }

    /// Returns true if the service has regions that a bucket's requests are signed for.
    pub(super) fn has_regions(&self) -> bool {
        matches!(self.settings, Settings::S3(_))
    }

    /// Returns a client of the bucket. `region` replaces the one of the settings.
    pub(super) fn connect(&self, login: Login, region: Option<&str>) -> Result<Arc<dyn ObjectStore>, Cause> {
        let store: object_store::Result<Arc<dyn ObjectStore>> = match &self.settings {
            Settings::S3(settings) => self.s3(settings, login, region).build().map(|store| Arc::new(store) as _),
            Settings::Gcs(settings) => self.gcs(settings, login).build().map(|store| Arc::new(store) as _),
            Settings::Azure(settings, account) => {
                self.azure(settings, account, login).build().map(|store| Arc::new(store) as _)
            }
        };
        store.map_err(Cause::of)
    }

    fn s3(&self, settings: &S3Settings, login: Login, region: Option<&str>) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.bucket)
            .with_http_connector(self.connector.clone())
            .with_retry(no_retries())
            .with_allow_http(true)
            .with_skip_signature(login == Login::Anonymous);
        if let Some(region) = region.or(settings.region.as_deref()) {
            builder = builder.with_region(region);
        }
        builder = match (&settings.endpoint, settings.style) {
            (Some(endpoint), S3Style::VirtualHost) => builder.with_endpoint(in_host(endpoint, &self.bucket)),
            (Some(endpoint), S3Style::Path) => builder.with_endpoint(endpoint),
            (None, S3Style::VirtualHost | S3Style::Path) => builder,
        };
        builder = builder.with_virtual_hosted_style_request(settings.style == S3Style::VirtualHost);
        let pairs = match login {
            Login::Given => s3_identity(settings),
            Login::Machine => settings.metadata.iter().map(|url| (S3Key::MetadataEndpoint, url.clone())).collect(),
            Login::Anonymous => Vec::new(),
        };
        pairs.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value))
    }

    fn gcs(&self, settings: &GcsSettings, login: Login) -> GoogleCloudStorageBuilder {
        let builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.bucket)
            .with_http_connector(self.connector.clone())
            .with_retry(no_retries());
        let builder = match &settings.endpoint {
            Some(endpoint) => builder.with_config(GcsKey::BaseUrl, endpoint),
            None => builder,
        };
        match (&settings.identity, login) {
            (_, Login::Anonymous) => {
                // Without credentials the library would look for files and the metadata service.
                let none = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
                builder.with_credentials(Arc::new(none)).with_skip_signature(true)
            }
            (GcsIdentity::ServiceAccount(key), _) => builder.with_service_account_key(key),
            (GcsIdentity::Application(path), _) => builder.with_application_credentials(path),
            (GcsIdentity::Anonymous | GcsIdentity::Unknown, _) => builder,
        }
    }

    fn azure(&self, settings: &AzureSettings, account: &str, login: Login) -> MicrosoftAzureBuilder {
        let mut builder = MicrosoftAzureBuilder::new()
            .with_account(account)
            .with_container_name(&self.bucket)
            .with_http_connector(self.connector.clone())
            .with_retry(no_retries())
            .with_allow_http(true)
            .with_skip_signature(login == Login::Anonymous);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        let mut pairs = match login {
            Login::Given => azure_identity(&settings.identity),
            // A machine may have several identities, of which this names one.
            Login::Machine => settings.machine.iter().map(|id| (AzureKey::ClientId, id.clone())).collect(),
            Login::Anonymous => Vec::new(),
        };
        pairs.extend(settings.authority.clone().map(|host| (AzureKey::AuthorityHost, host)));
        pairs.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value))
    }
}

/// The transfer repeats requests, and knows which bytes are missing.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Puts the bucket in front of the host of an endpoint.
fn in_host(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) => format!("{scheme}://{bucket}.{host}"),
        None => endpoint.to_owned(),
    }
}

fn s3_identity(settings: &S3Settings) -> Vec<(S3Key, String)> {
    let mut pairs = match settings.identity.clone() {
        S3Identity::Anonymous | S3Identity::Unknown => Vec::new(),
        S3Identity::Keys { id, secret, token } => {
            let token = token.map(|token| (S3Key::Token, token));
            [(S3Key::AccessKeyId, id), (S3Key::SecretAccessKey, secret)].into_iter().chain(token).collect()
        }
        S3Identity::WebIdentity { file, role, session } => {
            let session = session.map(|session| (S3Key::RoleSessionName, session));
            [(S3Key::WebIdentityTokenFile, file), (S3Key::RoleArn, role)].into_iter().chain(session).collect()
        }
        S3Identity::PodIdentity { url, token_file } => {
            vec![(S3Key::ContainerCredentialsFullUri, url), (S3Key::ContainerAuthorizationTokenFile, token_file)]
        }
        S3Identity::Task { path } => vec![(S3Key::ContainerCredentialsRelativeUri, path)],
    };
    pairs.extend(settings.token_service.clone().map(|url| (S3Key::StsEndpoint, url)));
    pairs
}

fn azure_identity(identity: &AzureIdentity) -> Vec<(AzureKey, String)> {
    match identity.clone() {
        AzureIdentity::AccessKey(key) => vec![(AzureKey::AccessKey, key)],
        AzureIdentity::Signature(signature) => vec![(AzureKey::SasKey, signature)],
        AzureIdentity::Client { tenant, id, secret } => {
            vec![(AzureKey::AuthorityId, tenant), (AzureKey::ClientId, id), (AzureKey::ClientSecret, secret)]
        }
        AzureIdentity::Workload { tenant, id, file } => {
            vec![(AzureKey::AuthorityId, tenant), (AzureKey::ClientId, id), (AzureKey::FederatedTokenFile, file)]
        }
        AzureIdentity::Unknown => Vec::new(),
    }
}
