//! Choice of a runtime by KServe's rules.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use weir_crds::inference_service::{FailureReason, Model, Protocol};
use weir_crds::serving_runtime::SupportedModelFormat;

use super::kserve;
use super::{Runtime, Runtimes, Scope, Unserved};

/// Default protocol of a model, as in KServe.
const DEFAULT_PROTOCOL: Protocol = Protocol::V1;

impl Runtimes {
    /// Returns the runtime of this name, if it can serve the model; `autoSelect` does not matter.
    pub(super) fn named(&self, namespace: &str, name: &str, model: &Model) -> Result<&Runtime, Unserved> {
        let Some(runtime) = self.usable(namespace).find(|r| r.name == name) else {
            let known: Vec<_> = self.usable(namespace).map(|r| &*r.name).collect();
            let message = format!("there is no runtime {name}; available: {}", known.join(", "));
            return Err(unserved(FailureReason::RuntimeNotRecognized, message));
        };
        if runtime.is_disabled() {
            let message = format!("the runtime {name} is disabled");
            return Err(unserved(FailureReason::RuntimeDisabled, message));
        }
        if !runtime.formats(model).any(|_| true) {
            let message = format!("the runtime {name} does not serve {}", described(model));
            return Err(unserved(FailureReason::NoSupportingRuntime, message));
        }
        match model.framework.protocol_version {
            Some(protocol) if !runtime.speaks(protocol) => {
                let message = format!("the runtime {name} does not speak {}", word(protocol));
                Err(unserved(FailureReason::NoSupportingRuntime, message))
            }
            Some(_) | None => Ok(runtime),
        }
    }

    /// Returns the best runtime that allows auto-selection. If the model sets no protocol, runtimes of the default
    /// protocol come first, as in KServe, and then all others.
    pub(super) fn best(&self, namespace: &str, model: &Model) -> Result<&Runtime, Unserved> {
        let wanted = model.framework.protocol_version;
        let first = self.best_speaking(namespace, model, Some(wanted.unwrap_or(DEFAULT_PROTOCOL)));
        let found = match wanted {
            Some(_) => first,
            None => first.or_else(|| self.best_speaking(namespace, model, None)),
        };
        found.ok_or_else(|| {
            let message = format!("no runtime serves {}; {}", described(model), self.served(namespace, model));
            unserved(FailureReason::NoSupportingRuntime, message)
        })
    }

    /// Describes what is served instead: the versions and protocols of a known format, or else the known formats.
    fn served(&self, namespace: &str, model: &Model) -> String {
        let usable = || self.usable(namespace).filter(|runtime| !runtime.is_disabled());
        let wanted = &model.model_format.name;
        let of_name = usable().filter(|runtime| runtime.selectable_formats().any(|f| f.name == *wanted));
        let words: BTreeSet<String> = of_name.flat_map(|runtime| runtime.ways(wanted)).collect();
        if !words.is_empty() {
            let words: Vec<String> = words.into_iter().collect();
            return format!("{wanted} is served as {}", words.join(", "));
        }
        let formats: BTreeSet<&str> =
            usable().flat_map(Runtime::selectable_formats).map(|format| &*format.name).collect();
        if formats.is_empty() {
            return format!("no runtime is installed: add a ServingRuntime for {wanted}");
        }
        let formats: Vec<&str> = formats.into_iter().collect();
        format!("formats that work here: {}. {}", formats.join(", "), kserve::advice(wanted))
    }

    fn best_speaking(&self, namespace: &str, model: &Model, protocol: Option<Protocol>) -> Option<&Runtime> {
        let can = |runtime: &&Runtime| {
            !runtime.is_disabled()
                && runtime.spec.worker_spec.is_none()
                && protocol.is_none_or(|protocol| runtime.speaks(protocol))
                && runtime.selectable(model).any(|_| true)
        };
        self.usable(namespace).filter(can).min_by_key(|runtime| rank(runtime, model))
    }
}

impl Runtime {
    fn is_disabled(&self) -> bool {
        self.spec.disabled == Some(true)
    }

    fn speaks(&self, protocol: Protocol) -> bool {
        let known = &self.spec.protocol_versions;
        known.is_empty() || known.contains(&protocol)
    }

    /// Returns the formats of the runtime that match the model.
    fn formats(&self, model: &Model) -> impl Iterator<Item = &SupportedModelFormat> {
        let wanted = &model.model_format;
        self.spec.supported_model_formats.iter().filter(|format| {
            let version = wanted.version.is_none() || format.version == wanted.version;
            format.name == wanted.name && version
        })
    }

    /// Returns the formats with `autoSelect`, whatever the model.
    fn selectable_formats(&self) -> impl Iterator<Item = &SupportedModelFormat> {
        let formats = self.spec.supported_model_formats.iter();
        formats.filter(|format| format.auto_select == Some(true))
    }

    /// Returns the versions and protocols in which a format is served.
    fn ways(&self, name: &str) -> Vec<String> {
        let formats = self.selectable_formats().filter(|format| format.name == name);
        let versions =
            formats.filter_map(|format| format.version.as_deref()).map(|version| format!("version {version}"));
        let protocols = self.spec.protocol_versions.iter().map(|protocol| word(*protocol));
        versions.chain(protocols.map(str::to_owned)).collect()
    }

    /// Returns the matching formats with `autoSelect`.
    fn selectable(&self, model: &Model) -> impl Iterator<Item = &SupportedModelFormat> {
        self.formats(model).filter(|f| f.auto_select == Some(true))
    }
}

/// Returns the rank of a runtime, the best first: own namespace, highest priority, lowest protocol, newest, first by
/// name.
fn rank<'a>(runtime: &'a Runtime, model: &Model) -> impl Ord + use<'a> {
    let scope = match runtime.scope {
        Scope::Namespace(_) => 0,
        Scope::Cluster => 1,
    };
    let priority = runtime.selectable(model).filter_map(|f| f.priority).max();
    let lowest = runtime.spec.protocol_versions.iter().min();
    let lowest = lowest.map_or((1, Protocol::V1), |protocol| (0, *protocol));
    (scope, Reverse(priority), lowest, Reverse(runtime.since), &*runtime.name)
}

fn described(model: &Model) -> String {
    let format = &model.model_format;
    let version = format.version.as_deref();
    let version = version.map_or(String::new(), |version| format!(" version {version}"));
    let protocol = model.framework.protocol_version;
    let protocol = protocol.map_or(String::new(), |p| format!(" over {}", word(p)));
    format!("the format {}{version}{protocol}", format.name)
}

fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::V1 => "v1",
        Protocol::V2 => "v2",
        Protocol::GrpcV1 => "grpc-v1",
        Protocol::GrpcV2 => "grpc-v2",
    }
}

fn unserved(reason: FailureReason, message: String) -> Unserved {
    Unserved { reason, message }
}
