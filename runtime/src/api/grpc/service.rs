//! The RPC methods: each decodes its request, calls the server and encodes the response.

use tonic::{Request, Response, Status, Streaming};
use weir_protocol::grpc::proto;
use weir_protocol::grpc::proto::grpc_inference_service_server::GrpcInferenceService;

use super::stream::Responses;
use super::{Grpc, deadline, decode_version, respond, status};
use crate::error::ServeError;
use crate::incoming::shared_memory::RegionStatus;
use crate::repository::{IndexFilter, IndexState, LoadOptions};
use crate::settings::{log, trace};

type RpcResult<T> = Result<Response<T>, Status>;

fn answer<T>(result: Result<T, ServeError>) -> RpcResult<T> {
    result.map(Response::new).map_err(|error| status(&error))
}

#[tonic::async_trait]
impl GrpcInferenceService for Grpc {
    async fn server_live(&self, _: Request<proto::ServerLiveRequest>) -> RpcResult<proto::ServerLiveResponse> {
        let live = self.server.live().is_ok();
        answer(Ok(proto::ServerLiveResponse { live }))
    }

    async fn server_ready(&self, _: Request<proto::ServerReadyRequest>) -> RpcResult<proto::ServerReadyResponse> {
        answer(Ok(proto::ServerReadyResponse { ready: self.server.ready() }))
    }

    async fn model_ready(&self, request: Request<proto::ModelReadyRequest>) -> RpcResult<proto::ModelReadyResponse> {
        let proto::ModelReadyRequest { name, version } = request.into_inner();
        let ready = self.find(&name, &version).is_ok();
        answer(Ok(proto::ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<proto::ServerMetadataRequest>,
    ) -> RpcResult<proto::ServerMetadataResponse> {
        let identity = self.server.identity();
        answer(Ok(proto::ServerMetadataResponse {
            name: identity.name.clone(),
            version: identity.version.clone(),
            extensions: identity.extensions.iter().map(|&name| name.to_owned()).collect(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<proto::ModelMetadataRequest>,
    ) -> RpcResult<proto::ModelMetadataResponse> {
        let proto::ModelMetadataRequest { name, version } = request.into_inner();
        let model = decode_version(&version).and_then(|version| self.server.model_metadata(&name, &version));
        answer(model.map(|model| proto::ModelMetadataResponse {
            name: model.name,
            versions: model.versions,
            platform: model.platform,
            inputs: model.inputs.into_iter().map(tensor_metadata).collect(),
            outputs: model.outputs.into_iter().map(tensor_metadata).collect(),
        }))
    }

    async fn model_infer(&self, request: Request<proto::ModelInferRequest>) -> RpcResult<proto::ModelInferResponse> {
        let (metadata, _, request) = request.into_parts();
        let metadata = metadata.into_headers();
        let deadline = deadline(&metadata).map_err(|error| status(&error))?;
        let inferred = self.infer(request, &metadata, deadline).await;
        inferred.map(respond).map_err(|error| status(&error))
    }

    type ModelStreamInferStream = Responses;

    async fn model_stream_infer(&self, request: Request<Streaming<proto::ModelInferRequest>>) -> RpcResult<Responses> {
        let (metadata, _, requests) = request.into_parts();
        let mut response = Response::new(self.stream(requests, metadata.into_headers()));
        // Sent in the headers, from which a gateway learns that each message of the stream has one answer.
        let capacity = self.server.capacity().into();
        response.metadata_mut().insert("weir-capacity", capacity);
        Ok(response)
    }

    async fn model_config(&self, request: Request<proto::ModelConfigRequest>) -> RpcResult<proto::ModelConfigResponse> {
        let proto::ModelConfigRequest { name, version } = request.into_inner();
        answer(
            self.find(&name, &version)
                .map(|loaded| proto::ModelConfigResponse { config: Some(loaded.proto().clone()) }),
        )
    }

    async fn model_statistics(
        &self,
        request: Request<proto::ModelStatisticsRequest>,
    ) -> RpcResult<proto::ModelStatisticsResponse> {
        let proto::ModelStatisticsRequest { name, version } = request.into_inner();
        if name.is_empty() {
            self.options.control.check_all_models().map_err(|error| status(&error))?;
        }
        let models = decode_version(&version).and_then(|version| self.server.statistics(&name, &version));
        answer(models.map(|models| {
            let stats = |(name, version, snapshot): (String, u64, crate::statistics::Snapshot)| {
                snapshot.to_proto(&name, version)
            };
            proto::ModelStatisticsResponse { model_stats: models.into_iter().map(stats).collect() }
        }))
    }

    async fn repository_index(
        &self,
        request: Request<proto::RepositoryIndexRequest>,
    ) -> RpcResult<proto::RepositoryIndexResponse> {
        let proto::RepositoryIndexRequest { repository_name, ready } = request.into_inner();
        let listing = if ready { IndexFilter::Ready } else { IndexFilter::All };
        answer(unnamed(&repository_name).map(|()| {
            let models =
                self.server.index(listing).into_iter().map(|entry| proto::repository_index_response::ModelIndex {
                    name: entry.name,
                    version: entry.version.unwrap_or_default(),
                    state: entry.state.map_or("", IndexState::as_str).to_owned(),
                    reason: entry.reason,
                });
            proto::RepositoryIndexResponse { models: models.collect() }
        }))
    }

    async fn repository_model_load(
        &self,
        request: Request<proto::RepositoryModelLoadRequest>,
    ) -> RpcResult<proto::RepositoryModelLoadResponse> {
        let request = request.into_inner();
        let loaded = match unnamed(&request.repository_name).and_then(|()| load_options(request.parameters)) {
            Ok(options) => self.server.load(&request.model_name, options).await,
            Err(error) => Err(error),
        };
        answer(loaded.map(|()| proto::RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<proto::RepositoryModelUnloadRequest>,
    ) -> RpcResult<proto::RepositoryModelUnloadResponse> {
        let request = request.into_inner();
        let checked = unnamed(&request.repository_name).and_then(|()| check_unload_parameters(&request.parameters));
        let unloaded = match checked {
            Ok(()) => self.server.unload(&request.model_name).await,
            Err(error) => Err(error),
        };
        answer(unloaded.map(|()| proto::RepositoryModelUnloadResponse {}))
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<proto::SystemSharedMemoryStatusRequest>,
    ) -> RpcResult<proto::SystemSharedMemoryStatusResponse> {
        let name = request.into_inner().name;
        let regions = self.server.memory().status(some(&name));
        answer(regions.map_err(ServeError::codec).map(|regions| {
            let regions = regions.iter().map(|region| (region.name.clone(), region.to_proto()));
            proto::SystemSharedMemoryStatusResponse { regions: regions.collect() }
        }))
    }

    async fn system_shared_memory_register(
        &self,
        request: Request<proto::SystemSharedMemoryRegisterRequest>,
    ) -> RpcResult<proto::SystemSharedMemoryRegisterResponse> {
        let proto::SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = request.into_inner();
        let region = RegionStatus { name, key, offset, byte_size };
        let registered = self.server.memory().register(region).map_err(ServeError::codec);
        answer(registered.map(|()| proto::SystemSharedMemoryRegisterResponse {}))
    }

    async fn system_shared_memory_unregister(
        &self,
        request: Request<proto::SystemSharedMemoryUnregisterRequest>,
    ) -> RpcResult<proto::SystemSharedMemoryUnregisterResponse> {
        let name = request.into_inner().name;
        let unregistered = self.server.memory().unregister(some(&name)).map_err(ServeError::codec);
        answer(unregistered.map(|()| proto::SystemSharedMemoryUnregisterResponse {}))
    }

    async fn cuda_shared_memory_status(
        &self,
        request: Request<proto::CudaSharedMemoryStatusRequest>,
    ) -> RpcResult<proto::CudaSharedMemoryStatusResponse> {
        let name = request.into_inner().name;
        let none = self.server.memory().status_cuda(some(&name)).map_err(ServeError::codec);
        answer(none.map(|()| proto::CudaSharedMemoryStatusResponse::default()))
    }

    async fn cuda_shared_memory_register(
        &self,
        _: Request<proto::CudaSharedMemoryRegisterRequest>,
    ) -> RpcResult<proto::CudaSharedMemoryRegisterResponse> {
        let refused = self.server.memory().register_cuda().map_err(ServeError::codec);
        answer(refused.map(|()| proto::CudaSharedMemoryRegisterResponse {}))
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<proto::CudaSharedMemoryUnregisterRequest>,
    ) -> RpcResult<proto::CudaSharedMemoryUnregisterResponse> {
        let none = self.server.memory().unregister_cuda().map_err(ServeError::codec);
        answer(none.map(|()| proto::CudaSharedMemoryUnregisterResponse {}))
    }

    async fn trace_setting(
        &self,
        request: Request<proto::TraceSettingRequest>,
    ) -> RpcResult<proto::TraceSettingResponse> {
        let request = request.into_inner();
        let model = Some(request.model_name.clone()).filter(|model| !model.is_empty());
        let own_name = |model: String| self.server.own_name(&model);
        let model = model.map(own_name).transpose().map_err(|error| status(&error))?;
        let (model, update) = (model.as_deref(), trace::update_from_proto(request));
        let updated = self.server.trace().update(model, &update);
        answer(updated.map(|trace| trace.to_proto()).map_err(ServeError::codec))
    }

    async fn log_settings(&self, request: Request<proto::LogSettingsRequest>) -> RpcResult<proto::LogSettingsResponse> {
        let updated = log::update_from_proto(request.into_inner()).and_then(|update| self.server.log().update(&update));
        answer(updated.map(|log| log.to_proto()).map_err(ServeError::codec))
    }
}

fn tensor_metadata(spec: weir_protocol::TensorSpec) -> proto::model_metadata_response::TensorMetadata {
    proto::model_metadata_response::TensorMetadata {
        name: spec.name,
        datatype: spec.datatype.name().to_owned(),
        shape: spec.shape,
    }
}

/// Returns the name; `None` for an empty one, which means all.
fn some(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

/// Refuses a repository name, because the only repository has none.
fn unnamed(repository: &str) -> Result<(), ServeError> {
    if repository.is_empty() {
        return Ok(());
    }
    Err(ServeError::Unimplemented("'repository_name' specification is not supported".to_owned()))
}

fn load_options(
    parameters: std::collections::BTreeMap<String, proto::ModelRepositoryParameter>,
) -> Result<LoadOptions, ServeError> {
    use proto::model_repository_parameter::ParameterChoice;
    let mut options = LoadOptions::default();
    for (key, parameter) in parameters {
        match (key.as_str(), parameter.parameter_choice) {
            ("config", Some(ParameterChoice::StringParam(config))) => options.config = Some(config),
            (file, Some(ParameterChoice::BytesParam(content))) if file.starts_with("file:") => {
                options.files.push((file["file:".len()..].to_owned(), content));
            }
            ("config", _) => return Err(wrong_load_parameter(&key, "string_param")),
            (file, _) if file.starts_with("file:") => {
                return Err(wrong_load_parameter(&key, "bytes_param"));
            }
            (_, _) => {
                let message = format!("unrecognized load parameter '{key}'.");
                return Err(ServeError::Invalid(message));
            }
        }
    }
    Ok(options)
}

/// Checks the parameters of an unload. `unload_dependents` has no effect, because Weir has no ensembles, but its type
/// must be right.
fn check_unload_parameters(
    parameters: &std::collections::BTreeMap<String, proto::ModelRepositoryParameter>,
) -> Result<(), ServeError> {
    use proto::model_repository_parameter::ParameterChoice;
    let key = "unload_dependents";
    match parameters.get(key).map(|given| &given.parameter_choice) {
        None | Some(Some(ParameterChoice::BoolParam(_))) => Ok(()),
        Some(_) => Err(ServeError::Invalid(format!("invalid value type for '{key}' parameter, expected bool_param."))),
    }
}

fn wrong_load_parameter(key: &str, expected: &str) -> ServeError {
    ServeError::Invalid(format!("invalid value type for load parameter '{key}', expected {expected}."))
}
