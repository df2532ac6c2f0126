//! All calls but inference: health, metadata, repository, statistics, settings and shared memory.

use bytes::Bytes;
use weir_protocol::rest::{self, Health, ModelMetadata, ServerMetadata};

use super::respond::{CAPACITY, empty, json};
use super::route::{Access, Memory, Route, Target};
use super::{Http, HttpResult, LARGE, Received};
use crate::error::ServeError;
use crate::incoming::off_reactor;
use crate::incoming::shared_memory::{RegionStatus, SharedMemoryError};
use crate::repository::{IndexFilter, LoadOptions};
use crate::settings::{log, trace};
use crate::statistics::statistics_body;

impl Http {
    /// Answers the calls that never wait.
    pub(super) fn control(&self, route: &Route<'_>, received: &Received) -> HttpResult {
        match route {
            Route::Live => self.live(),
            Route::V1Live => self.live().map(|_| json(rest::alive())),
            Route::Ready => self.ready(),
            Route::ModelReady(target) => self.model_ready(target),
            Route::V1Ready(model) => self.model_ready(&Target { model: model.clone(), version: "" }),
            Route::ServerMetadata => Ok(self.server_metadata()),
            Route::Models | Route::V1Models => Ok(json(rest::model_list(&self.server.models()))),
            Route::ModelMetadata(target) => self.model_metadata(target),
            Route::ModelConfig(target) => self.model_config(target),
            Route::Statistics(target) => self.statistics(target.as_ref()),
            Route::Index => self.index(&received.body),
            Route::Trace(access, model) => self.trace(*access, model.as_deref(), &received.body),
            Route::Logging(access) => self.logging(*access, &received.body),
            Route::RegionStatus(Memory::System, region) => self.region_status(region.as_deref()),
            Route::RegionRegister(Memory::System, region) => self.region_register(region, &received.body),
            Route::RegionUnregister(Memory::System, region) => done(self.server.memory().unregister(region.as_deref())),
            Route::RegionStatus(Memory::Cuda, region) => {
                let none = self.server.memory().status_cuda(region.as_deref()).map_err(ServeError::codec);
                none.map(|()| json("[]"))
            }
            Route::RegionUnregister(Memory::Cuda, _) => done(self.server.memory().unregister_cuda()),
            Route::RegionRegister(Memory::Cuda, _) => done(self.server.memory().register_cuda()),
            Route::NamedRepository => {
                Err(ServeError::Unimplemented("'repository_name' specification is not supported".to_owned()))
            }
            Route::Infer(_)
            | Route::Generate(_)
            | Route::GenerateStream(_)
            | Route::V1Predict(_)
            | Route::Load(_)
            | Route::Unload(_) => Err(ServeError::NotFound("Not Found".to_owned())),
        }
    }

    fn live(&self) -> HttpResult {
        self.server.live().map(|()| json(rest::live(Health::Up)))
    }

    fn ready(&self) -> HttpResult {
        self.server.live()?;
        if self.server.ready() {
            return Ok(self.with_capacity(json(rest::ready(Health::Up))));
        }
        let mut response = json(rest::ready(Health::Down));
        *response.status_mut() = weir_protocol::Code::Unavailable.http();
        Ok(response)
    }

    fn model_ready(&self, target: &Target<'_>) -> HttpResult {
        self.server.find(&target.model, target.version)?;
        let response = json(rest::model_ready(&target.model, Health::Up));
        Ok(self.with_capacity(response))
    }

    fn with_capacity(&self, mut response: http::Response<super::Body>) -> http::Response<super::Body> {
        let capacity = self.server.capacity().into();
        response.headers_mut().insert(CAPACITY, capacity);
        response
    }

    fn server_metadata(&self) -> http::Response<super::Body> {
        let identity = self.server.identity();
        json(rest::server_metadata(&ServerMetadata {
            name: &identity.name,
            version: &identity.version,
            extensions: identity.extensions,
        }))
    }

    fn model_metadata(&self, target: &Target<'_>) -> HttpResult {
        let model = self.server.model_metadata(&target.model, target.version)?;
        Ok(json(rest::model_metadata(&ModelMetadata {
            name: &model.name,
            versions: &model.versions,
            platform: &model.platform,
            inputs: &model.inputs,
            outputs: &model.outputs,
        })))
    }

    fn model_config(&self, target: &Target<'_>) -> HttpResult {
        let loaded = self.server.find(&target.model, target.version)?;
        let config =
            crate::model::config::to_json(loaded.proto()).map_err(|error| ServeError::Model(error.to_string()))?;
        Ok(json(config))
    }

    fn statistics(&self, target: Option<&Target<'_>>) -> HttpResult {
        let (model, version) = target.map_or(("", ""), |target| (&target.model, target.version));
        let models = self.server.statistics(model, version)?;
        let body =
            statistics_body(models.iter().map(|(name, version, snapshot)| (name.as_str(), *version, snapshot.clone())));
        Ok(json(body.to_string()))
    }

    fn index(&self, body: &Bytes) -> HttpResult {
        let request = rest::decode_index(body).map_err(ServeError::codec)?;
        let listing = if request.ready { IndexFilter::Ready } else { IndexFilter::All };
        let entries: Vec<rest::IndexEntry> = self
            .server
            .index(listing)
            .into_iter()
            .map(|entry| rest::IndexEntry {
                name: entry.name,
                version: entry.version,
                state: entry.state.map(|state| state.as_str().to_owned()),
                reason: (!entry.reason.is_empty()).then_some(entry.reason),
            })
            .collect();
        Ok(json(rest::repository_index(&entries)))
    }

    pub(super) async fn load(&self, model: &str, received: &Received) -> HttpResult {
        let body = received.body.clone();
        // The body contains the files of models in base64.
        let decoded = if body.len() > LARGE {
            off_reactor(move || rest::decode_load(&body)).await?
        } else {
            rest::decode_load(&body)
        };
        let request = decoded.map_err(ServeError::codec)?;
        let options = LoadOptions { config: request.config, files: request.files };
        self.server.load(model, options).await.map(|()| empty())
    }

    pub(super) async fn unload(&self, model: &str, received: &Received) -> HttpResult {
        // `unload_dependents` has no effect: only ensembles depend on models, and Weir has none.
        rest::decode_unload(&received.body).map_err(ServeError::codec)?;
        self.server.unload(model).await.map(|()| empty())
    }

    fn trace(&self, access: Access, model: Option<&str>, body: &Bytes) -> HttpResult {
        let model = model.map(|model| self.server.own_name(model)).transpose()?;
        let model = model.as_deref();
        let store = self.server.trace();
        let current = match access {
            Access::Read => store.current(model),
            Access::Update => trace::update_from_json(body)
                .and_then(|update| store.update(model, &update))
                .map_err(ServeError::codec)?,
        };
        Ok(json(current.to_json().to_string()))
    }

    fn logging(&self, access: Access, body: &Bytes) -> HttpResult {
        let store = self.server.log();
        let current = match access {
            Access::Read => store.current(),
            Access::Update => {
                log::update_from_json(body).and_then(|update| store.update(&update)).map_err(ServeError::codec)?
            }
        };
        Ok(json(current.to_json().to_string()))
    }

    fn region_status(&self, region: Option<&str>) -> HttpResult {
        let regions = self.server.memory().status(region).map_err(ServeError::codec)?;
        let regions: Vec<_> = regions.iter().map(RegionStatus::to_json).collect();
        Ok(json(serde_json::Value::from(regions).to_string()))
    }

    fn region_register(&self, name: &str, body: &Bytes) -> HttpResult {
        let rest::RegionRequest { key, offset, byte_size } = rest::decode_region(body).map_err(ServeError::codec)?;
        done(self.server.memory().register(RegionStatus { name: name.to_owned(), key, offset, byte_size }))
    }
}

/// Returns the response of a change of regions.
fn done(changed: Result<(), SharedMemoryError>) -> HttpResult {
    changed.map(|()| empty()).map_err(ServeError::codec)
}
