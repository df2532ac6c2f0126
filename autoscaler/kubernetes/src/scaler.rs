//! KEDA's external scaler: a gRPC service that answers KEDA's calls, and notifies it at once when a service at zero is
//! needed.

mod push;
#[cfg(test)]
mod tests;
mod trigger;

use std::pin::Pin;

use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use self::push::Pushes;
use self::trigger::Trigger;
use crate::Loads;
use crate::clock;
use crate::loads::LoadError;
use crate::proto::external_scaler_server::{ExternalScaler, ExternalScalerServer};
use crate::proto::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue,
    ScaledObjectRef,
};

/// Prefix of the service's paths, by which a server routes requests to it.
pub const PATH: &str = "/externalscaler.ExternalScaler/";

/// The gRPC service, for an HTTP/2 server.
pub type ExternalScalerService = ExternalScalerServer<Scaler>;

/// Largest request in bytes: it holds a name, a namespace, and the metadata of the trigger.
const MAX_REQUEST: usize = 64 * 1024;

/// Creates the service for these loads.
#[must_use]
pub fn external_scaler(loads: Loads) -> ExternalScalerService {
    ExternalScalerServer::new(Scaler { loads }).max_decoding_message_size(MAX_REQUEST)
}

/// Handler of KEDA's calls.
#[derive(Debug)]
pub struct Scaler {
    loads: Loads,
}

#[tonic::async_trait]
impl ExternalScaler for Scaler {
    type StreamIsActiveStream = Pin<Box<dyn Stream<Item = Result<IsActiveResponse, Status>> + Send>>;

    async fn is_active(&self, request: Request<ScaledObjectRef>) -> Result<Response<IsActiveResponse>, Status> {
        let trigger = read(Some(&request.into_inner()))?;
        let result = is_active(&self.loads, &trigger)?;
        Ok(Response::new(IsActiveResponse { result }))
    }

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let trigger = read(Some(&request.into_inner()))?;
        let (sender, answers) = tokio::sync::mpsc::channel(1);
        tokio::spawn(notify(self.loads.clone(), trigger, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        let trigger = read(Some(&request.into_inner()))?;
        let spec = MetricSpec {
            metric_name: trigger.metric.name().to_owned(),
            target_size: trigger.target.ceil() as i64,
            target_size_float: trigger.target,
        };
        let metric_specs = vec![spec];
        Ok(Response::new(GetMetricSpecResponse { metric_specs }))
    }

    async fn get_metrics(&self, request: Request<GetMetricsRequest>) -> Result<Response<GetMetricsResponse>, Status> {
        let request = request.into_inner();
        let trigger = read(request.scaled_object_ref.as_ref())?;
        let load = self.loads.of_service(&trigger.service).map_err(status)?;
        let value = trigger.metric.value(&load);
        let value = MetricValue {
            metric_name: request.metric_name,
            metric_value: value.ceil() as i64,
            metric_value_float: value,
        };
        let metric_values = vec![value];
        Ok(Response::new(GetMetricsResponse { metric_values }))
    }
}

/// Streams whether the service is active: now, whenever that changes, and repeatedly while requests wait for a first
/// pod. Ends when the client closes the stream. While the load is unknown, nothing is sent.
async fn notify(
    mut loads: Loads,
    trigger: Trigger,
    answers: tokio::sync::mpsc::Sender<Result<IsActiveResponse, Status>>,
) {
    let mut pushes = Pushes::default();
    loop {
        let load = loads.of_service(&trigger.service).ok();
        let push = load.and_then(|load| pushes.next(&load, clock::now()));
        if let Some(result) = push
            && answers.send(Ok(IsActiveResponse { result })).await.is_err()
        {
            return;
        }
        tokio::select! {
            is_open = loads.changed() => if !is_open { return },
            () = answers.closed() => return,
        }
    }
}

fn is_active(loads: &Loads, trigger: &Trigger) -> Result<bool, Status> {
    let load = loads.of_service(&trigger.service).map_err(status)?;
    Ok(load.is_active())
}

fn read(object: Option<&ScaledObjectRef>) -> Result<Trigger, Status> {
    let object = object.ok_or_else(|| Status::invalid_argument("scaledObjectRef is missing"))?;
    Trigger::read(&object.name, &object.namespace, &object.scaler_metadata).map_err(Status::invalid_argument)
}

fn status(error: LoadError) -> Status {
    match error {
        LoadError::UnknownService { .. } => Status::not_found(error.to_string()),
        LoadError::NotMeasured(_) => Status::unavailable(error.to_string()),
    }
}
