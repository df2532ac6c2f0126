//! The Kubernetes API types of Weir: KServe's `InferenceService` (`serving.kserve.io/v1beta1`),
//! `ServingRuntime`, `ClusterServingRuntime` and `ClusterStorageContainer` (`v1alpha1`), with the same JSON names.
//!
//! The types contain what the user wrote. [`with_defaults`] fills in omitted fields, [`unsupported`] lists the fields
//! of KServe that Weir does not honour, and [`read`] turns YAML into objects or into [`Diagnostic`]s. `yaml/` contains
//! the custom resource definitions, generated from the types: see [`DEFINITIONS`].

mod constants;
mod defaults;
mod definitions;
mod diagnostic;
mod nearest;
mod pod;
mod quantity;
mod read;
mod rules;
mod schema;
mod spans;
mod support;
mod yaml;

pub mod inference_service;
pub mod serving_runtime;
pub mod storage_container;

pub use constants::{BATCH_MAX_LATENCY, BATCH_MAX_SIZE, GROUP, MIN_REPLICAS, MODEL_MOUNT_PATH, SERVING_CONTAINER};
pub use defaults::with_defaults;
pub use definitions::{DEFINITIONS, Definition};
pub use diagnostic::{Diagnostic, Position, Problem};
pub use inference_service::{InferenceService, InferenceServiceSpec, InferenceServiceStatus};
pub use quantity::quantity_value;
pub use read::{Broken, Incomplete, Manifest, Object, ReadDocument, Reading, read, read_all, read_document};
pub use serving_runtime::{ClusterServingRuntime, ClusterServingRuntimeSpec, ServingRuntime, ServingRuntimeSpec};
pub use spans::Spans;
pub use storage_container::{ClusterStorageContainer, StorageContainer, storage_container_definition};
pub use support::{Effect, SET_FOR_ALL_VARIANTS, Unsupported, unsupported, unsupported_in_runtime};
