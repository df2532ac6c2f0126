//! Paths of calls that control a server or that concern all of its models: loading, shared memory, tracing, logging,
//! and statistics of all models. Permission to infer with a model does not include these calls.

use percent_encoding::percent_decode_str;

/// Name of the V2 protocol's gRPC service, without the package prefix.
const GRPC_SERVICE: &str = "inference.GRPCInferenceService";

/// Returns true for the path of a call that controls a server, over HTTP or gRPC. The path may have any spelling that
/// some server accepts: percent-encoded, with doubled slashes, or with dot segments.
#[must_use]
pub fn is_control(path: &str) -> bool {
    // Here and below, paths are searched by bytes: every HTTP request passes here, and searching a string for a `char`
    // costs more than comparing its few bytes.
    let slash = path.bytes().rposition(|byte| byte == b'/');
    let rpc = slash.and_then(|slash| path.split_at_checked(slash));
    match rpc {
        Some((service, rpc)) if service.ends_with(GRPC_SERVICE) => is_control_rpc(&rpc[1..]),
        Some(_) | None => is_control_path(path),
    }
}

/// Returns true for the path of a gRPC call that concerns all models of a server if its message names no model.
#[must_use]
pub fn is_control_without_model(path: &str) -> bool {
    matches!(path.rsplit_once('/'), Some((service, "ModelStatistics")) if service.ends_with(GRPC_SERVICE))
}

fn is_control_rpc(rpc: &str) -> bool {
    match rpc {
        "RepositoryIndex" | "RepositoryModelLoad" | "RepositoryModelUnload" | "TraceSetting" | "LogSettings" => true,
        other => other.contains("SharedMemory"),
    }
}

fn is_control_path(path: &str) -> bool {
    if is_plain(path.as_bytes()) {
        // Fast path for almost all requests.
        if path.starts_with("/v2/models/") && path.ends_with("/infer") {
            return false;
        }
        let segments = path.as_bytes().split(|byte| *byte == b'/');
        return are_control(segments.filter(|segment| !segment.is_empty()));
    }
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    if are_control(resolved(&decoded).into_iter().map(str::as_bytes)) {
        return true;
    }
    // A server that splits the path before decoding keeps encoded slashes and dots within a segment.
    let names: Vec<_> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|name| percent_decode_str(name).decode_utf8_lossy())
        .collect();
    are_control(names.iter().map(|name| name.as_bytes()))
}

/// Returns true for a path that every server interprets in the same way.
fn is_plain(path: &[u8]) -> bool {
    match memchr::memchr3(b'%', b'\\', b'.', path) {
        None => true,
        Some(_) => memchr::memchr2(b'%', b'\\', path).is_none() && !path.windows(2).any(|pair| pair == b"/."),
    }
}

/// Returns the segments of a path after its dot segments are resolved.
fn resolved(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    segments
}

fn are_control<'a>(mut segments: impl Iterator<Item = &'a [u8]>) -> bool {
    let is = |segment: Option<&[u8]>, name: &str| {
        segment.is_some_and(|segment| segment.eq_ignore_ascii_case(name.as_bytes()))
    };
    if !is(segments.next(), "v2") {
        return false;
    }
    let group = segments.next();
    if is(group, "models") {
        return is_about_all_or_traced(segments);
    }
    let groups = ["repository", "systemsharedmemory", "cudasharedmemory", "logging", "trace"];
    groups.iter().any(|name| is(group, name))
}

/// Returns true if the segments after `/v2/models` are `stats` or `MODEL/…/trace/setting`.
fn is_about_all_or_traced<'a>(mut segments: impl Iterator<Item = &'a [u8]>) -> bool {
    let Some(model) = segments.next() else {
        return false;
    };
    let (mut before, mut last) = (None, None);
    let mut count = 0;
    for segment in segments {
        (before, last) = (last, Some(segment));
        count += 1;
    }
    match (before, last) {
        (None, None) => model.eq_ignore_ascii_case(b"stats"),
        (Some(before), Some(last)) if count >= 2 => {
            before.eq_ignore_ascii_case(b"trace") && last.eq_ignore_ascii_case(b"setting")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONTROL: &[&str] = &[
        "/v2/repository/index",
        "/v2/repository/models/a/load",
        "/v2/repository/models/a/unload",
        "/v2/repository/name/models/a/load",
        "/v2/systemsharedmemory/status",
        "/v2/systemsharedmemory/region/a/register",
        "/v2/cudasharedmemory/region/a/unregister",
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/models/a/trace/setting",
        "/v2/models/a/versions/1/trace/setting",
        "/v2/models/stats",
    ];

    const OPEN: &[&str] = &[
        "/",
        "/v2",
        "/v2/health/ready",
        "/v2/models",
        "/v2/models/a",
        "/v2/models/a/infer",
        "/v2/models/a/versions/1/infer",
        "/v2/models/a/stats",
        "/v2/models/a/config",
        "/v2/models/repository/infer",
        "/v2/models/trace/ready",
        "/v2/models/stats/infer",
        "/v1/models/a:predict",
        "/repository/index",
        "/openai/v1/completions",
        "/inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/ModelStreamInfer",
        "/inference.GRPCInferenceService/ModelStatistics",
        "/inference.GRPCInferenceService/ServerReady",
        "/grpc.health.v1.Health/Check",
        "/other.Service/RepositoryIndex",
    ];

    #[test]
    fn control_paths_are_distinguished_from_inference_paths() {
        for path in CONTROL {
            assert!(is_control(path), "{path}");
        }
        for path in OPEN {
            assert!(!is_control(path), "{path}");
        }
        for rpc in [
            "RepositoryIndex",
            "RepositoryModelLoad",
            "RepositoryModelUnload",
            "TraceSetting",
            "LogSettings",
            "SystemSharedMemoryStatus",
            "SystemSharedMemoryRegister",
            "CudaSharedMemoryUnregister",
        ] {
            let path = format!("/inference.GRPCInferenceService/{rpc}");
            assert!(is_control(&path), "{path}");
        }
    }

    #[test]
    fn grpc_statistics_without_a_model_name_concern_all_models() {
        for (path, expected) in [
            ("/inference.GRPCInferenceService/ModelStatistics", true),
            ("/prefix.inference.GRPCInferenceService/ModelStatistics", true),
            ("/inference.GRPCInferenceService/ModelMetadata", false),
            ("/v2/models/a/stats", false),
            ("ModelStatistics", false),
        ] {
            assert_eq!(is_control_without_model(path), expected, "{path}");
        }
    }

    #[test]
    fn other_spellings_of_control_paths_are_recognised() {
        for path in [
            "/v2/repository/index/",
            "//v2//repository//index",
            "/v2/%72epository/index",
            "/v2%2frepository/index",
            "/V2/Repository/index",
            "/v2/./repository/index",
            "/v2/models/../repository/index",
            "/v2/models/a%2f..%2f../logging",
            "/v2\\repository/index",
            "/v2/repository/models/..%2f..%2fa/load",
            "/v2/%72epository/a%2f..%2f..%2fa/index",
            "/v2/models/a%2f../trace/setting",
            "/prefix.inference.GRPCInferenceService/RepositoryIndex",
        ] {
            assert!(is_control(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn escapes_do_not_hide_a_control_path(
            index in 0..CONTROL.len(),
            escaped in prop::collection::vec(any::<bool>(), 60),
        ) {
            let path: String = CONTROL[index]
                .char_indices()
                .map(|(at, letter)| {
                    if escaped[at % escaped.len()] && at > 0 {
                        format!("%{:02x}", letter as u32)
                    } else {
                        letter.to_string()
                    }
                })
                .collect();
            prop_assert!(is_control(&path), "{path}");
        }

        #[test]
        fn every_text_is_accepted_without_a_panic(path in ".{0,60}") {
            let _ = is_control(&path);
        }
    }
}
