//! Parses a method and a path into a V2 or V1 call: a function of values, without a server.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::error::ServeError;
use crate::incoming::restriction::ApiGroup;

/// A model and the requested version; an empty version means the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) model: Cow<'a, str>,
    pub(crate) version: &'a str,
}

/// One call of the HTTP interface; the functions `v2` and `v1` list the paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    ServerMetadata,
    Live,
    Ready,
    Models,
    ModelMetadata(Target<'a>),
    ModelReady(Target<'a>),
    ModelConfig(Target<'a>),
    Infer(Target<'a>),
    Generate(Target<'a>),
    GenerateStream(Target<'a>),
    Statistics(Option<Target<'a>>),
    Trace(Access, Option<Cow<'a, str>>),
    Logging(Access),
    Index,
    Load(Cow<'a, str>),
    Unload(Cow<'a, str>),
    /// Index, load or unload in a named repository, such as `v2/repository/NAME/index`. Triton has these paths; Weir
    /// answers that they are not supported.
    NamedRepository,
    RegionStatus(Memory, Option<Cow<'a, str>>),
    RegionRegister(Memory, Cow<'a, str>),
    RegionUnregister(Memory, Option<Cow<'a, str>>),
    V1Live,
    V1Models,
    V1Ready(Cow<'a, str>),
    V1Predict(Cow<'a, str>),
}

/// The use of a setting: reading or changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Update,
}

/// The kind of a shared-memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    System,
    Cuda,
}

impl<'a> Route<'a> {
    /// Parses a request line.
    ///
    /// # Errors
    /// [`ServeError::NotFound`] for an unknown path, [`ServeError::MethodNotAllowed`] for a path that exists with
    /// another method.
    pub(crate) fn parse(method: &Method, path: &'a str) -> Result<Self, ServeError> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = [""; MAX_SEGMENTS];
        let mut count = 0;
        for segment in path.split('/').skip(1) {
            *segments.get_mut(count).ok_or_else(not_found)? = segment;
            count += 1;
        }
        match segments.get(..count) {
            // KServe's servers and its client have V1 liveness at the root path.
            Some([]) => get(method, Route::V1Live),
            Some(["v2", rest @ ..]) => v2(method, rest),
            Some(["v1", "models", rest @ ..]) => v1(method, rest),
            Some(other) => Err(other_protocol(other)),
            None => Err(not_found()),
        }
    }

    /// The group of calls that restrictions refer to.
    pub(crate) fn group(&self) -> ApiGroup {
        match self {
            Self::Live | Self::Ready | Self::ModelReady(_) | Self::V1Live | Self::V1Ready(_) => ApiGroup::Health,
            Self::ServerMetadata | Self::Models | Self::ModelMetadata(_) | Self::V1Models => ApiGroup::Metadata,
            Self::Infer(_) | Self::Generate(_) | Self::GenerateStream(_) | Self::V1Predict(_) => ApiGroup::Inference,
            Self::ModelConfig(_) => ApiGroup::ModelConfig,
            Self::Statistics(_) => ApiGroup::Statistics,
            Self::Trace(..) => ApiGroup::Trace,
            Self::Logging(_) => ApiGroup::Logging,
            Self::Index | Self::Load(_) | Self::Unload(_) | Self::NamedRepository => ApiGroup::ModelRepository,
            Self::RegionStatus(..) | Self::RegionRegister(..) | Self::RegionUnregister(..) => ApiGroup::SharedMemory,
        }
    }

    /// True if the body can hold tensors or files, not only names and settings.
    pub(crate) fn carries_data(&self) -> bool {
        self.group() == ApiGroup::Inference || matches!(self, Self::Load(_))
    }
}

/// Number of segments of the longest path, `v2/models/{m}/versions/{v}/trace/setting`, and one more to recognise paths
/// that are too long.
const MAX_SEGMENTS: usize = 8;

fn v2<'a>(method: &Method, rest: &[&'a str]) -> Result<Route<'a>, ServeError> {
    match rest {
        [] => get(method, Route::ServerMetadata),
        ["health", "live"] => get(method, Route::Live),
        ["health", "ready"] => get(method, Route::Ready),
        ["logging"] => Ok(Route::Logging(access(method)?)),
        ["trace", "setting"] => Ok(Route::Trace(access(method)?, None)),
        ["models"] => get(method, Route::Models),
        ["models", "stats"] => get(method, Route::Statistics(None)),
        ["models", model, rest @ ..] => of_model(method, model, rest),
        ["repository", rest @ ..] => repository(method, rest),
        ["systemsharedmemory", rest @ ..] => region(method, Memory::System, rest),
        ["cudasharedmemory", rest @ ..] => region(method, Memory::Cuda, rest),
        _ => Err(not_found()),
    }
}

fn of_model<'a>(method: &Method, model: &'a str, rest: &[&'a str]) -> Result<Route<'a>, ServeError> {
    let (version, call) = match rest {
        ["versions", version, call @ ..] if is_number(version) => (plain(version), call),
        ["versions", ..] => return Err(not_found()),
        call => ("", call),
    };
    let target = Target { model: decoded(model)?, version };
    match call {
        ["infer"] => post(method, Route::Infer(target)),
        [] => get(method, Route::ModelMetadata(target)),
        ["ready"] => get(method, Route::ModelReady(target)),
        ["config"] => get(method, Route::ModelConfig(target)),
        ["stats"] => get(method, Route::Statistics(Some(target))),
        ["generate"] => post(method, Route::Generate(target)),
        ["generate_stream"] => post(method, Route::GenerateStream(target)),
        // The settings apply to all versions of the model, but Triton accepts this path with a version too.
        ["trace", "setting"] => Ok(Route::Trace(access(method)?, Some(target.model))),
        _ => Err(not_found()),
    }
}

fn repository<'a>(method: &Method, rest: &[&'a str]) -> Result<Route<'a>, ServeError> {
    match rest {
        ["index"] => post(method, Route::Index),
        ["models", model, "load"] => post(method, Route::Load(decoded(model)?)),
        ["models", model, "unload"] => post(method, Route::Unload(decoded(model)?)),
        [_, "index"] | [_, "models", _, "load" | "unload"] => post(method, Route::NamedRepository),
        _ => Err(not_found()),
    }
}

fn region<'a>(method: &Method, kind: Memory, rest: &[&'a str]) -> Result<Route<'a>, ServeError> {
    match rest {
        ["status"] => get(method, Route::RegionStatus(kind, None)),
        ["region", name, "status"] => get(method, Route::RegionStatus(kind, Some(decoded(name)?))),
        ["region", name, "register"] => post(method, Route::RegionRegister(kind, decoded(name)?)),
        ["unregister"] => post(method, Route::RegionUnregister(kind, None)),
        ["region", name, "unregister"] => post(method, Route::RegionUnregister(kind, Some(decoded(name)?))),
        _ => Err(not_found()),
    }
}

fn v1<'a>(method: &Method, rest: &[&'a str]) -> Result<Route<'a>, ServeError> {
    match rest {
        [] => get(method, Route::V1Models),
        [last] => v1_of_model(method, decoded(last)?),
        _ => Err(not_found()),
    }
}

/// Parses a V1 call to a model. Some clients percent-encode the colon before the verb, so the verb is searched in the
/// decoded segment.
fn v1_of_model<'a>(method: &Method, named: Cow<'a, str>) -> Result<Route<'a>, ServeError> {
    if named.ends_with(":explain") {
        return Err(ServeError::Unimplemented("this server has no explainer: use :predict".to_owned()));
    }
    let model = named.strip_suffix(":predict").map(str::len);
    match (model, named) {
        (None, named) => get(method, Route::V1Ready(named)),
        (Some(end), Cow::Borrowed(named)) => post(method, Route::V1Predict(named[..end].into())),
        (Some(end), Cow::Owned(mut named)) => {
            named.truncate(end);
            post(method, Route::V1Predict(named.into()))
        }
    }
}

/// Accepts `GET`, and `HEAD`, which is answered like `GET` without the body (RFC 9110, 9.1).
fn get<'a>(method: &Method, route: Route<'a>) -> Result<Route<'a>, ServeError> {
    if matches!(*method, Method::GET | Method::HEAD) { Ok(route) } else { Err(not_allowed("GET, HEAD")) }
}

fn post<'a>(method: &Method, route: Route<'a>) -> Result<Route<'a>, ServeError> {
    if method == Method::POST { Ok(route) } else { Err(not_allowed("POST")) }
}

fn not_allowed(allowed: &'static str) -> ServeError {
    ServeError::MethodNotAllowed { allowed }
}

fn access(method: &Method) -> Result<Access, ServeError> {
    match *method {
        Method::GET | Method::HEAD => Ok(Access::Read),
        Method::POST => Ok(Access::Update),
        _ => Err(not_allowed("GET, HEAD, POST")),
    }
}

/// Percent-decodes a name: tritonclient encodes the names of models and regions.
fn decoded(segment: &str) -> Result<Cow<'_, str>, ServeError> {
    percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| ServeError::Invalid(format!("name '{segment}' in the path is not UTF-8")))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a version number without leading zeros.
fn plain(number: &str) -> &str {
    match number.trim_start_matches('0') {
        "" => "0",
        plain => plain,
    }
}

/// Returns the error for a path of another protocol; it names common ones.
fn other_protocol(segments: &[&str]) -> ServeError {
    match segments {
        ["openai", ..] | ["v1", "chat" | "completions" | "embeddings" | "responses", ..] => ServeError::NotFound(
            "this server has no OpenAI API: use POST /v2/models/NAME/infer or /v2/models/NAME/generate".to_owned(),
        ),
        ["inference.GRPCInferenceService", ..] => ServeError::NotFound(
            "a gRPC call came to the HTTP port: send it to the gRPC port, with content-type application/grpc"
                .to_owned(),
        ),
        _ => not_found(),
    }
}

fn not_found() -> ServeError {
    ServeError::NotFound("Not Found".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(model: &str, version: &'static str) -> Target<'static> {
        Target { model: model.to_owned().into(), version }
    }

    fn check(method: Method, path: &str, want: Result<Route<'_>, ServeError>) {
        assert_eq!(Route::parse(&method, path), want, "{method} {path}");
    }

    #[test]
    fn paths_of_models_are_parsed() {
        check(Method::POST, "/v2/models/m/infer", Ok(Route::Infer(target("m", ""))));
        check(Method::POST, "/v2/models/m/versions/3/infer", Ok(Route::Infer(target("m", "3"))));
        check(Method::GET, "/v2/models/a%2Fb.c", Ok(Route::ModelMetadata(target("a/b.c", ""))));
        check(Method::GET, "/v2/models/m/versions/abc", Err(not_found()));
        for (written, version) in [("01", "1"), ("000", "0"), ("10", "10")] {
            let path = format!("/v2/models/m/versions/{written}");
            check(Method::GET, &path, Ok(Route::ModelMetadata(target("m", version))));
        }
        check(Method::GET, "/v2/models/m/infer", Err(not_allowed("POST")));
        check(Method::HEAD, "/v2", Ok(Route::ServerMetadata));
        check(Method::HEAD, "/v2/models/m/infer", Err(not_allowed("POST")));
        check(Method::GET, "/v2/models/stats", Ok(Route::Statistics(None)));
        for path in ["/v2/models/m/trace/setting", "/v2/models/m/versions/2/trace/setting"] {
            let trace = Route::Trace(Access::Read, Some("m".into()));
            check(Method::GET, path, Ok(trace));
        }
        check(Method::POST, "/v1/models/m:predict", Ok(Route::V1Predict("m".into())));
        check(Method::POST, "/v1/models/a%20b%3Apredict", Ok(Route::V1Predict("a b".into())));
        check(Method::GET, "/v1/models/m", Ok(Route::V1Ready("m".into())));
    }

    #[test]
    fn paths_of_the_server_are_parsed() {
        check(Method::GET, "/v2", Ok(Route::ServerMetadata));
        check(Method::GET, "/", Ok(Route::V1Live));
        check(Method::GET, "/v2/", Ok(Route::ServerMetadata));
        check(Method::GET, "/v2/unknown", Err(not_found()));
        check(Method::POST, "/v2/health/live", Err(not_allowed("GET, HEAD")));
        check(Method::POST, "/v2/repository/r/index", Ok(Route::NamedRepository));
        let all = Route::RegionUnregister(Memory::System, None);
        check(Method::POST, "/v2/systemsharedmemory/unregister", Ok(all));
        check(Method::GET, "/a/b/c/d/e/f/g/h/i/j", Err(not_found()));
    }

    #[test]
    fn errors_for_paths_of_other_protocols_name_them() {
        for (path, word) in [
            ("/v1/chat/completions", "OpenAI"),
            ("/openai/v1/models", "OpenAI"),
            ("/v1/models/m:explain", "explainer"),
            ("/inference.GRPCInferenceService/ModelInfer", "gRPC"),
        ] {
            let error = Route::parse(&Method::POST, path).unwrap_err();
            assert!(error.to_string().contains(word), "{path}: {error}");
        }
    }
}
