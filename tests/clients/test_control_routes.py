"""A server whose clients may use its models but not control it."""

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

import wire
from server import GOOD, Server


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    options = ["--control-routes=closed", "--model-control-mode=explicit", "--load-model=add_sub"]
    running = Server(tmp_path_factory.mktemp("closed") / "log", [GOOD], options).start("/v2/models/add_sub/ready")
    yield running
    running.stop()


@pytest.mark.parametrize("path", ["/v2/models/stats", "/v2/models/stats/", "/v2/logging", "/v2/systemsharedmemory/status"])
def test_control_is_refused_over_http(closed, path):
    assert closed.call("GET", path).status == 403


def test_statistics_of_all_models_are_a_control_route(closed):
    assert closed.infer("add_sub", wire.add_sub()).status == 200
    assert closed.statistics("add_sub")["name"] == "add_sub"
    options = [("grpc.default_authority", wire.HOST)]
    with grpc.insecure_channel(f"127.0.0.1:{closed.grpc_port}", options) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelStatistics(pb.ModelStatisticsRequest(name="add_sub"), timeout=20)
        assert [model.name for model in answer.model_stats] == ["add_sub"]
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelStatistics(pb.ModelStatisticsRequest(), timeout=20)
        assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
