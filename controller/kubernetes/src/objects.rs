//! The objects that the watches have shown, and the declaration that follows from them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use weir_cluster::ServiceName;
use weir_cluster_kubernetes::Seen;
use weir_controller::{Declaration, DeclaredService, Platform, Runtimes};
use weir_crds::InferenceServiceStatus;

use crate::object::SeenService;
use crate::runtime::{Kind, SeenRuntime};

/// An event of one of the watches.
#[derive(Debug)]
pub(crate) enum Change {
    /// Event of an InferenceService.
    Service(Event<DynamicObject>),
    /// Event of a runtime of this kind.
    Runtime(Kind, Event<DynamicObject>),
}

/// The statuses of all services, as the API server has them.
pub(crate) type Statuses = BTreeMap<ServiceName, Arc<InferenceServiceStatus>>;

/// The objects that the watches have shown.
#[derive(Debug)]
pub(crate) struct Objects {
    platform: Platform,
    services: Seen<SeenService>,
    runtimes: Seen<SeenRuntime>,
    cluster_runtimes: Seen<SeenRuntime>,
    /// The last declaration, in which each service was validated as it was last readable.
    last: Declaration,
}

impl Objects {
    pub(crate) fn new(platform: Platform) -> Self {
        Self {
            platform,
            services: Seen::default(),
            runtimes: Seen::default(),
            cluster_runtimes: Seen::default(),
            last: Declaration::default(),
        }
    }

    /// Takes in an event.
    pub(crate) fn take(&mut self, change: Change) {
        match change {
            Change::Service(event) => {
                self.services.take(event, SeenService::read);
            }
            Change::Runtime(kind, event) => {
                let runtimes = match kind {
                    Kind::ServingRuntime => &mut self.runtimes,
                    Kind::ClusterServingRuntime => &mut self.cluster_runtimes,
                };
                runtimes.take(event, |object, before| kind.read(object, before));
            }
        }
    }

    /// The declaration as it is now, once all that existed at the start is known.
    pub(crate) fn declaration(&mut self) -> Option<Declaration> {
        let is_complete = self.services.is_complete()
            && self.runtimes.is_complete()
            && self.cluster_runtimes.is_complete();
        if !is_complete {
            return None;
        }
        let services = self.services.values().map(|seen| {
            let service = seen.service.clone();
            (service.name.clone(), service)
        });
        let runtimes = self.all_runtimes().filter_map(|seen| seen.runtime.clone());
        let runtimes = Runtimes::declared(runtimes.collect());
        let last = &self.last;
        self.last = Declaration::new(services.collect(), runtimes, last, &self.platform);
        Some(self.with_errors())
    }

    /// The statuses of all services.
    pub(crate) fn statuses(&self) -> Statuses {
        let each = self.services.values();
        each.map(|seen| (seen.service.name.clone(), seen.status.clone()))
            .collect()
    }

    fn all_runtimes(&self) -> impl Iterator<Item = &SeenRuntime> {
        self.runtimes.values().chain(self.cluster_runtimes.values())
    }

    /// The last declaration, with the errors of objects that are not readable now.
    fn with_errors(&self) -> Declaration {
        let mut declaration = self.last.clone();
        for seen in self.services.values() {
            if let Some(errors) = &seen.errors {
                let declared = DeclaredService {
                    service: seen.service.clone(),
                    validation: Err(errors.clone()),
                };
                declaration
                    .services
                    .insert(seen.service.name.clone(), declared);
            }
        }
        let problems = self.all_runtimes().filter_map(|seen| seen.problem.clone());
        declaration.problems = problems.collect();
        declaration
    }
}
