//! Announces each service that becomes ready, with a command to try and the service's other addresses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_controller::files::Statuses;
use weir_controller::{Declaration, Service};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::ports::Ports;
use crate::authority::authority;
use crate::output::print;

/// Least time between two updates, so that announcements are printed together.
const PAUSE: Duration = Duration::from_millis(50);

/// Option of `curl` that sends the key of the variable which `weir infer` reads as well.
const KEY_OPTION: &str = " -H \"Authorization: Bearer $WEIR_API_KEY\"";

/// Folder beside a manifest that may hold example requests.
const INPUTS: &str = "inputs";

/// The serving port, as clients on this machine reach it.
pub(super) struct Port {
    /// Host and port for URLs.
    authority: String,
    /// Certificate file of the port; `None` if the port is not encrypted.
    certificate: Option<PathBuf>,
    /// Option of `curl` with a key; empty if the port asks for none.
    key_option: &'static str,
}

impl Port {
    pub(super) fn of(ports: &Ports) -> Self {
        let tls = ports.tls.as_ref();
        Self {
            authority: authority(ports.serving_at),
            certificate: tls.map(|tls| tls.pair.certificate().to_owned()),
            key_option: if ports.access.is_some() { KEY_OPTION } else { "" },
        }
    }
}

/// Announces each service the first time that it is ready, until the channel closes.
pub(super) async fn run(
    declaration: watch::Receiver<Arc<Declaration>>,
    mut statuses: watch::Receiver<Arc<Statuses>>,
    port: Port,
) {
    let mut announced = BTreeSet::new();
    loop {
        let now = statuses.borrow_and_update().clone();
        let ready = now.iter().filter(|(_, status)| is_ready(status));
        let new: Vec<_> = ready.filter(|(name, _)| !announced.contains(*name)).map(|(name, _)| name.clone()).collect();
        for name in new {
            let declaration = declaration.borrow().clone();
            if let Some(declared) = declaration.services.get(&name) {
                let host = now.get(&name).and_then(|status| host(status));
                let all: Vec<_> = declaration.services.keys().map(ServiceName::whole).collect();
                let command = command(&declared.service, &all, &port);
                print(&format!("\n{name} is ready. Try:\n\n  {command}\n"));
                print(&format!("{}\n", other_addresses(&name, host, &port)));
            }
            announced.insert(name);
        }
        tokio::time::sleep(PAUSE).await;
        if statuses.changed().await.is_err() {
            return;
        }
    }
}

fn is_ready(status: &InferenceServiceStatus) -> bool {
    let ready = status.condition(Condition::READY);
    ready.is_some_and(|ready| ready.status == ConditionStatus::True)
}

/// Returns the host name by which clients outside reach the service, if any.
fn host(status: &InferenceServiceStatus) -> Option<&str> {
    let (_, host) = status.url.as_deref()?.split_once("://")?;
    Some(host)
}

/// Formats the service's other addresses, which also work on a cluster.
fn other_addresses(name: &ServiceName, host: Option<&str>, port: &Port) -> String {
    let path = format!("{}{}/v2/…", port.authority, name.path_prefix());
    match host {
        Some(host) => format!("By path: {path}  By host: -H 'Host: {host}'"),
        None => format!("By path: {path}"),
    }
}

/// Returns a `curl` command: an inference if there is an example request beside the manifest, else a metadata call. `all`
/// are the declared services.
fn command(service: &Service, all: &[ServiceName], port: &Port) -> String {
    let url = format!("{}{}", word(&port.authority), path(&service.name, all));
    let key = port.key_option;
    let curl = match &port.certificate {
        Some(file) => format!("curl -s{key} --cacert {} https://{url}", quoted(file)),
        None => format!("curl -s{key} {url}"),
    };
    match request(service, all) {
        Some(file) => format!("{curl}/infer -d @{}", quoted(&file)),
        None => curl,
    }
}

/// Returns the path of the model: by its name in the default namespace, or below the service's path if a service of
/// another namespace has the same name.
fn path(name: &ServiceName, all: &[ServiceName]) -> String {
    let model = format!("/v2/models/{}", name.name());
    let is_shared = all.iter().any(|other| other.name() == name.name() && other.namespace() != name.namespace());
    match name.namespace() {
        weir_controller::DEFAULT_NAMESPACE if !is_shared => model,
        _ => format!("{}{model}", name.path_prefix()),
    }
}

/// Finds the first example request beside the manifest. With several services its file name must begin with the
/// service's name.
fn request(service: &Service, all: &[ServiceName]) -> Option<PathBuf> {
    let folder = service.claims.as_ref()?.join(INPUTS);
    let is_alone = all.iter().all(|other| *other == service.name.whole());
    let fits = |file: &Path| {
        let name = file.file_name().and_then(|name| name.to_str());
        let starts = |name: &str| is_alone || name.starts_with(service.name.name());
        let is_json = file.extension().is_some_and(|end| end == "json");
        is_json && name.is_some_and(starts) && is_request(file)
    };
    let files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let files: BTreeSet<PathBuf> = files.map(|entry| entry.path()).collect();
    files.into_iter().find(|file| fits(file))
}

/// Returns true if the file holds a V2 request; the folder may also hold labels.
fn is_request(file: &Path) -> bool {
    let text = std::fs::read(file).unwrap_or_default();
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    value.is_some_and(|value| value.get("inputs").is_some())
}

/// Returns the path relative to the working directory, quoted for a shell.
fn quoted(file: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let text = file.strip_prefix(here).unwrap_or(file);
    word(&text.display().to_string())
}

/// Quotes the text as one word for a shell. Some shells take the brackets of an IPv6 address for a pattern.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use weir_controller::KeptObject;

    use super::*;

    fn plain_port(number: u16) -> Port {
        Port { authority: format!("localhost:{number}"), certificate: None, key_option: "" }
    }

    fn service(namespace: &str, folder: Option<&Path>) -> Service {
        let object = serde_json::json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "digits"},
            "spec": {"predictor": {}},
        });
        let object = serde_json::from_value(object).unwrap();
        Service {
            name: ServiceName::new(namespace, "digits").unwrap(),
            object: KeptObject::Value(Arc::new(object)),
            spans: None,
            claims: folder.map(Path::to_owned),
            model_stamps: weir_controller::ModelStamps::new(),
        }
    }

    #[test]
    fn without_example_requests_the_command_reads_the_metadata() {
        let plain = command(&service("default", None), &[], &plain_port(8080));
        assert_eq!(plain, "curl -s localhost:8080/v2/models/digits");
        let other = command(&service("team", None), &[], &plain_port(80));
        let expected = "curl -s localhost:80/serving/team/digits/v2/models/digits";
        assert_eq!(other, expected);
        let port = Port { certificate: Some("/c d.pem".into()), ..plain_port(443) };
        let encrypted = command(&service("default", None), &[], &port);
        let expected = "curl -s --cacert '/c d.pem' https://localhost:443/v2/models/digits";
        assert_eq!(encrypted, expected);
    }

    #[test]
    fn a_port_with_access_control_is_asked_with_a_key() {
        let port = Port { key_option: KEY_OPTION, ..plain_port(80) };
        let expected = "curl -s -H \"Authorization: Bearer $WEIR_API_KEY\" localhost:80/v2/models/digits";
        assert_eq!(command(&service("default", None), &[], &port), expected);
    }

    #[test]
    fn brackets_of_an_ipv6_address_are_quoted() {
        let port = Port { authority: "[2001:db8::1]:80".to_owned(), ..plain_port(80) };
        let expected = "curl -s '[2001:db8::1]:80'/v2/models/digits";
        assert_eq!(command(&service("default", None), &[], &port), expected);
    }

    #[test]
    fn a_service_whose_name_another_namespace_has_too_is_called_by_its_path() {
        let all = ["default", "team"].map(|namespace| service(namespace, None).name);
        let command = command(&service("default", None), &all, &plain_port(80));
        assert_eq!(command, "curl -s localhost:80/serving/default/digits/v2/models/digits");
    }

    #[test]
    fn the_other_addresses_are_printed() {
        let name = ServiceName::new("team", "digits").unwrap();
        let path = "By path: localhost:80/serving/team/digits/v2/…";
        assert_eq!(other_addresses(&name, None, &plain_port(80)), path);
        let status = InferenceServiceStatus {
            url: Some("http://digits-team.example.com".into()),
            ..InferenceServiceStatus::default()
        };
        let expected = format!("{path}  By host: -H 'Host: digits-team.example.com'");
        assert_eq!(other_addresses(&name, host(&status), &plain_port(80)), expected);
    }

    #[test]
    fn the_first_request_beside_the_manifest_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = folder.path().join(INPUTS);
        std::fs::create_dir(&inputs).unwrap();
        std::fs::write(inputs.join("a.json"), r#"{"inputs": []}"#).unwrap();
        std::fs::write(inputs.join("0-labels.json"), "[]").unwrap();
        let ours = service("default", Some(folder.path()));
        let alone = command(&ours, std::slice::from_ref(&ours.name), &plain_port(8080));
        assert!(alone.contains("/infer -d @"), "{alone}");
        assert!(alone.contains("a.json"), "{alone}");
        let both = [ours.name.clone(), ServiceName::new("default", "other").unwrap()];
        assert!(!command(&ours, &both, &plain_port(8080)).contains("-d @"));
    }

    #[test]
    fn a_path_with_spaces_is_quoted() {
        assert_eq!(quoted(Path::new("a b")), "'a b'");
        assert_eq!(quoted(Path::new("a/b-1.json")), "a/b-1.json");
    }
}
