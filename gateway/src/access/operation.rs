//! The operation of a call, by its path.

use http::Method;
use http::request::Parts;
use weir_access::Operation;
use weir_protocol::is_control;

use crate::upstream::Upgrade;
use crate::wire::protocol::Protocol;

const GRPC_SERVICE: &str = "/inference.GRPCInferenceService/";

/// gRPC methods that report the state or the metadata of a server or a model.
const REPORTS: [&str; 7] =
    ["ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"];

/// Returns the operation of a call to a service; `call` is its path without the service's prefix. A path counts as
/// metadata only if it has no escapes and no dot segments. Every call that is neither metadata nor control is
/// inference.
pub(super) fn of_call(protocol: Protocol, parts: &Parts, call: &str) -> Operation {
    if is_control(call) {
        return Operation::Control;
    }
    let is_metadata = match protocol {
        Protocol::Grpc => is_report(call),
        Protocol::Http => {
            let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
            is_read && Upgrade::of(parts) == Upgrade::None && is_metadata(call)
        }
    };
    if is_metadata { Operation::Metadata } else { Operation::Infer }
}

fn is_report(call: &str) -> bool {
    match call.strip_prefix(GRPC_SERVICE) {
        Some(method) => REPORTS.contains(&method),
        None => call.starts_with("/grpc.health.v1.Health/") || call.starts_with("/grpc.reflection."),
    }
}

fn is_metadata(path: &str) -> bool {
    if path.bytes().any(|byte| matches!(byte, b'%' | b'\\')) || path.contains("/.") {
        return false;
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if matches!(path, "" | "/v2" | "/v2/health/live" | "/v2/health/ready" | "/v2/models" | "/v1/models") {
        return true;
    }
    if let Some(model) = ["/v1/models/", "/openai/v1/models"].iter().find_map(|prefix| path.strip_prefix(prefix)) {
        return !model.trim_start_matches('/').contains(['/', ':']);
    }
    let Some(rest) = path.strip_prefix("/v2/models/") else {
        return false;
    };
    let mut segments = rest.split('/');
    let has_model = segments.next().is_some_and(|model| !model.is_empty());
    let last: Vec<&str> = segments.collect();
    const ENDS: [&str; 3] = ["ready", "config", "stats"];
    has_model
        && match last[..] {
            [] | ["versions", _] => true,
            [end] | ["versions", _, end] => ENDS.contains(&end),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn http(method: Method, path: &str) -> Operation {
        let parts = Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0;
        of_call(Protocol::Http, &parts, path)
    }

    #[test]
    fn reads_of_known_paths_are_metadata() {
        for path in [
            "/",
            "/v2",
            "/v2/health/ready",
            "/v2/models",
            "/v2/models/a",
            "/v2/models/a/",
            "/v2/models/a/ready",
            "/v2/models/a/versions/1/stats",
            "/v2/models/a/versions/1",
            "/v1/models",
            "/v1/models/a",
            "/openai/v1/models",
            "/openai/v1/models/a",
        ] {
            assert_eq!(http(Method::GET, path), Operation::Metadata, "{path}");
            assert_eq!(http(Method::POST, path), Operation::Infer, "{path}");
        }
    }

    #[test]
    fn everything_else_is_inference_or_control() {
        for path in [
            "/v2/models/a/infer",
            "/v2/models/a/generate",
            "/v2/models//ready",
            "/v2/models/a%2Finfer",
            "/v2/models/../a",
            "/v1/models/a:predict",
            "/v1/models/a/x",
            "/metrics",
            "/v1/chat/completions",
        ] {
            assert_eq!(http(Method::GET, path), Operation::Infer, "{path}");
        }
        for path in ["/v2/repository/index", "/v2/%72epository/index", "/v2/logging", "/v2/models/stats"] {
            assert_eq!(http(Method::GET, path), Operation::Control, "{path}");
        }
        let socket = Request::get("/v2").header("connection", "upgrade").header("upgrade", "websocket");
        let socket = socket.body(()).unwrap().into_parts().0;
        assert_eq!(of_call(Protocol::Http, &socket, "/v2"), Operation::Infer);
    }

    #[test]
    fn grpc_calls_are_distinguished_by_their_method() {
        let parts = Request::post("/").body(()).unwrap().into_parts().0;
        for (method, expected) in [
            ("/inference.GRPCInferenceService/ModelInfer", Operation::Infer),
            ("/inference.GRPCInferenceService/ModelStreamInfer", Operation::Infer),
            ("/inference.GRPCInferenceService/ModelMetadata", Operation::Metadata),
            ("/inference.GRPCInferenceService/RepositoryModelLoad", Operation::Control),
            ("/inference.GRPCInferenceService/SystemSharedMemoryStatus", Operation::Control),
            ("/grpc.health.v1.Health/Check", Operation::Metadata),
            ("/my.Service/ModelMetadata", Operation::Infer),
        ] {
            assert_eq!(of_call(Protocol::Grpc, &parts, method), expected, "{method}");
        }
    }
}
