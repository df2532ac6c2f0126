//! Tests with 64 clients at once on every protocol: the replica gets few requests, and each client gets its own result.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use prost::Message;
use serde_json::{Value, json};
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;
use weir_protocol::grpc::proto::{InferTensorContents, ModelInferRequest, ModelInferResponse};

use super::model::{self, bytes, framed, most_rows, numbers};
use super::{LONG, closed, open, replica, world};
use crate::client::{connect_h2, once, post, with};
use crate::replica::{Compute, TestReplica};
use crate::world::{HOST, World};

const CLIENTS: usize = 64;
const MOST: u32 = 8;
const WIDTH: usize = 3;

/// Requests that the replica gets. The first request is sent alone and keeps the replica busy. All but seven of the
/// others fill batches, which are sent at once; the last seven are sent when the first request is answered.
const REQUESTS: usize = 1 + (CLIENTS - 1).div_ceil(MOST as usize);

fn row(client: usize) -> [f64; WIDTH] {
    [client as f64, 0.5, -3.25]
}

fn own_sum(client: usize) -> f64 {
    row(client).iter().sum()
}

/// Starts all clients and waits for them. Each client checks its own answer.
async fn senders<A>(model: Compute, ask: impl Fn(SocketAddr, usize) -> A) -> (World, TestReplica)
where
    A: Future<Output = ()> + Send + 'static,
{
    let (world, gate) = (world(MOST, LONG).await, closed());
    let replica = replica(&world, "a", &gate, model).await;
    let clients: Vec<_> = (0..CLIENTS).map(|i| tokio::spawn(ask(world.address(), i))).collect();
    world.activity(1, |a| a.arrivals as usize == CLIENTS).await;
    open(&gate);
    for client in clients {
        client.await.unwrap();
    }
    (world, replica)
}

async fn check(world: &World, replica: &TestReplica) {
    assert_eq!(replica.requests(), REQUESTS);
    assert_eq!(most_rows(&replica.seen), MOST as usize);
    let all = CLIENTS as u64;
    let counts = |a: &weir_cluster::Activity| (a.arrivals, a.succeeded, a.failed, a.refused);
    world.activity(1, |a| counts(a) == (all, all, 0, 0)).await;
    world
        .activity(1, |a| {
            let counts = (a.queue_delay.count(), a.service_time.count());
            counts == (all, all) && (a.queued, a.in_flight) == (0, 0)
        })
        .await;
}

#[tokio::test]
async fn v1() {
    let ask = async |address, i| {
        let body = json!({ "instances": [row(i)] }).to_string();
        let answer = once(address, post(HOST, "/v1/models/digits:predict", body)).await;
        let answer_json: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer_json, json!({ "predictions": [own_sum(i)] }));
        assert_eq!(answer.header("weir-revision"), "digits-predictor-00001");
        assert!(answer.header("server-timing").starts_with("queue;dur="));
    };
    let (world, replica) = senders(model::lenient, ask).await;
    check(&world, &replica).await;
}

#[tokio::test]
async fn v2_json() {
    let ask = async |address, i: usize| {
        let input = json!({"name": "x", "datatype": "FP64", "shape": [1, WIDTH], "data": row(i)});
        let body = json!({"id": format!("c{i}"), "inputs": [input]}).to_string();
        let answer = once(address, post(HOST, "/v2/models/digits/infer", body)).await;
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        let output = json!({"name": "sum", "datatype": "FP64", "shape": [1], "data": [own_sum(i)]});
        let wanted = json!({"model_name": "digits", "id": format!("c{i}"), "outputs": [output]});
        assert_eq!(answer, wanted);
    };
    let (world, replica) = senders(model::v2, ask).await;
    check(&world, &replica).await;
}

#[tokio::test]
async fn v2_binary() {
    let ask = async |address, i: usize| {
        let size = json!({ "binary_data_size": WIDTH * 8 });
        let input = json!({"name": "x", "datatype": "FP64", "shape": [1, WIDTH], "parameters": size});
        let text = json!({"id": format!("c{i}"), "inputs": [input]}).to_string();
        let body = [text.as_bytes(), &bytes(&row(i))].concat();
        let request = post(HOST, "/v2/models/digits/infer", body);
        let length = text.len().to_string();
        let request = with(request, "inference-header-content-length", &length);
        let answer = once(address, request).await;
        let length: usize = answer.header("inference-header-content-length").parse().unwrap();
        let (text, blob) = answer.body.split_at(length);
        let answer: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(answer["id"], format!("c{i}"));
        assert_eq!(answer["outputs"][0]["shape"], json!([1]));
        assert_eq!(numbers(blob), [own_sum(i)]);
    };
    let (world, replica) = senders(model::v2, ask).await;
    check(&world, &replica).await;
}

fn infer(client: usize) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "digits".to_owned(),
        id: format!("c{client}"),
        inputs: vec![InferInputTensor {
            name: "x".to_owned(),
            datatype: "FP64".to_owned(),
            shape: vec![1, WIDTH as i64],
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn ask_grpc(address: SocketAddr, client: usize, request: ModelInferRequest) {
    let mut sender = connect_h2(address).await;
    let path = format!("http://{HOST}/inference.GRPCInferenceService/ModelInfer");
    let call = Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(framed(&request)))
        .unwrap();
    let response = sender.send_request(call).await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap();
    assert_eq!(trailers["grpc-status"], "0");
    let timing = trailers["server-timing"].to_str().unwrap();
    assert!(timing.starts_with("queue;dur=") && timing.ends_with("compute;dur=2.000"), "{timing}");
    let answer = body.to_bytes().slice(5..);
    let answer = ModelInferResponse::decode(answer).unwrap();
    assert_eq!(answer.id, format!("c{client}"));
    assert_eq!(answer.outputs[0].shape, [1]);
    assert_eq!(numbers(&answer.raw_output_contents[0]), [own_sum(client)]);
}

#[tokio::test]
async fn grpc_raw() {
    let ask = async |address, i| {
        let mut request = infer(i);
        request.raw_input_contents.push(Bytes::from(bytes(&row(i))));
        ask_grpc(address, i, request).await;
    };
    let (world, replica) = senders(model::grpc, ask).await;
    check(&world, &replica).await;
}

#[tokio::test]
async fn grpc_typed() {
    let ask = async |address, i| {
        let mut request = infer(i);
        request.inputs[0].contents = Some(InferTensorContents { fp64_contents: row(i).to_vec(), ..Default::default() });
        ask_grpc(address, i, request).await;
    };
    let (world, replica) = senders(model::grpc, ask).await;
    check(&world, &replica).await;
}
