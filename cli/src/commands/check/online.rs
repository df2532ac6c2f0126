//! Looks for the models of services in buckets, hubs, registries and web servers, without downloading them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::time::timeout;
use weir_cluster::ServiceName;
use weir_controller::{Declaration, DeclaredService, component_field};
use weir_controller_kubernetes::{StorageUri, storage_uris};
use weir_fetch::{Access, Limits, inspect, is_remote, without_secrets};

use crate::args::CheckArgs;
use crate::error::with_sources;

/// Number of models that are looked for at the same time.
const AT_ONCE: usize = 8;

/// Time for one model: listing a hundred thousand files takes about half of it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Time without data after which a request fails.
const STALL: Duration = Duration::from_secs(10);

/// Results for all services.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors with file, line, column and field.
    pub(super) errors: Vec<String>,
    /// Lines about the models of each service that are there.
    lines: BTreeMap<ServiceName, Vec<String>>,
}

impl Findings {
    /// Returns the lines about a service, indented like its notes.
    pub(super) fn lines_of(&self, service: &ServiceName) -> Vec<String> {
        self.lines.get(service).cloned().unwrap_or_default()
    }

    fn add(&mut self, declared: &DeclaredService, storage: &StorageUri, looked: Result<String, String>) {
        let service = &declared.service;
        match looked {
            Ok(found) => {
                let line = format!("  model: {}: {found}", without_secrets(&storage.uri));
                self.lines.entry(service.name.clone()).or_default().push(line);
            }
            Err(because) => {
                let field = component_field(service.name.component(), storage.field.clone());
                self.errors.push(service.located(&field, &storage.message(&because)));
            }
        }
    }
}

/// Looks for the models of all services, if the flag asks for it.
pub(super) async fn look(args: &CheckArgs, declaration: &Declaration) -> Findings {
    let mut findings = Findings::default();
    if !args.online {
        return findings;
    }
    let access = Access::from_environment();
    let services = declaration.services.values();
    let models: Vec<_> = services
        .flat_map(|declared| {
            let uris = storage_uris(&declared.service.object.read()).into_iter();
            uris.filter(|storage| is_remote(&storage.uri)).map(move |storage| (declared, storage))
        })
        .collect();
    // The order of the files is the order of the output.
    let looked = models.iter().map(|(_, storage)| look_at(&access, &storage.uri));
    let looked: Vec<_> = stream::iter(looked).buffered(AT_ONCE).collect().await;
    for ((declared, storage), looked) in models.iter().zip(looked) {
        findings.add(declared, storage, looked);
    }
    findings
}

/// Returns the number and size of a model's files. The error is a sentence.
async fn look_at(access: &Access, uri: &str) -> Result<String, String> {
    let limits = Limits { stall: STALL, ..Limits::default() };
    match timeout(DEADLINE, inspect(access, uri, &limits)).await {
        Ok(looked) => looked.map(|inventory| inventory.to_string()).map_err(|error| with_sources(&error)),
        Err(_) => Err(format!("{}: no answer within {} s", without_secrets(uri), DEADLINE.as_secs())),
    }
}
