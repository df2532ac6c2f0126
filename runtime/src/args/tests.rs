use super::*;
use crate::backend::Device;
use crate::incoming::restriction::ApiGroup;
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy};

fn config(flags: &str) -> Config {
    let argv = format!("weir-runtime --model-repository /m {flags}");
    parse(argv.split_whitespace()).unwrap()
}

fn errors(flags: &str) -> Vec<String> {
    let argv = format!("weir-runtime {flags}");
    match parse(argv.split_whitespace()) {
        Err(ArgsError::Invalid(errors)) => errors,
        other => panic!("no errors but {other:?}"),
    }
}

fn usage(flags: &str) -> String {
    let argv = format!("weir-runtime {flags}");
    match parse(argv.split_whitespace()) {
        Err(ArgsError::Usage(error)) => error.to_string(),
        other => panic!("no usage error but {other:?}"),
    }
}

#[test]
fn the_command_is_valid() {
    command().debug_assert();
}

#[test]
fn a_command_for_tritons_entry_point_is_accepted() {
    let port = |argv: &str| parse(argv.split_whitespace()).unwrap().http.unwrap().address.port();
    for name in ["tritonserver", "/opt/tritonserver/bin/tritonserver", "weir-runtime"] {
        let argv = format!("weir-runtime {name} --model-store=/m --http-port=8080");
        assert_eq!(port(&argv), 8080, "{name}");
    }
    assert!(usage("triton --model-store=/m").contains("unexpected argument 'triton'"));
}

#[test]
fn the_last_of_a_repeated_flag_counts() {
    let twice = "--http-port=8080 --strict-readiness=true --model-name a --http-port 9090 --strict-readiness off --model-name=b";
    let config = config(twice);
    assert_eq!(config.http.unwrap().address.port(), 9090);
    assert_eq!(config.readiness, ReadinessPolicy::Lenient);
    assert_eq!(config.model_name.as_deref(), Some("b"));
}

#[test]
fn defaults_are_those_of_triton() {
    let config = config("");
    let http = config.http.unwrap();
    assert_eq!(http.address.to_string(), "0.0.0.0:8000");
    assert_eq!(http.max_input, 64 << 20);
    assert_eq!(config.grpc.unwrap().address.to_string(), "0.0.0.0:8001");
    assert_eq!(config.metrics.unwrap().address.to_string(), "0.0.0.0:8002");
    assert_eq!(config.exit_timeout.as_secs(), 30);
    assert_eq!(config.control, ControlMode::None);
    assert_eq!(config.readiness, ReadinessPolicy::Strict);
    assert_eq!(config.on_load_error, OnLoadError::Exit);
    assert_eq!(config.shared_memory, None);
    assert_eq!((config.id.as_str(), config.device), ("triton", DeviceChoice::Auto));
    assert!(config.notes.is_empty());
}

#[test]
fn booleans_accept_tritons_forms() {
    for flags in ["--allow-http=false", "--allow-http 0", "--allow-http=Off"] {
        assert!(config(flags).http.is_none(), "{flags}");
    }
    for flags in ["--allow-http=on", "--allow-http 1", "--allow-http"] {
        assert!(config(flags).http.is_some(), "{flags}");
    }
    assert!(usage("--allow-http=perhaps").contains("expected true, on, 1, false, off or 0"));
}

#[test]
fn repositories_are_repeatable_and_have_an_old_name() {
    let config = config("--model-store /n");
    assert_eq!(config.repositories, [std::path::Path::new("/m"), "/n".as_ref()]);
}

#[test]
fn devices_are_read() {
    let device = |text| config(&format!("--device {text}")).device;
    assert_eq!(device("cpu"), DeviceChoice::Only(Device::Cpu));
    assert_eq!(device("cuda"), DeviceChoice::AllCuda);
    assert_eq!(device("cuda:2"), DeviceChoice::Only(Device::Cuda(2)));
    assert!(usage("--device tpu").contains("expected auto, cpu, cuda or cuda:N"));
}

#[test]
fn control_modes_read_their_own_flags() {
    let explicit = config("--model-control-mode=explicit --load-model a --load-model b").control;
    let load = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(explicit, ControlMode::Explicit { load });
    let every = std::time::Duration::from_secs(3);
    let poll = config("--model-control-mode poll --repository-poll-secs 3").control;
    assert_eq!(poll, ControlMode::Poll(every));
}

#[test]
fn all_errors_are_listed_at_once() {
    let found = errors(
        "--load-model a --grpc-port 8000 --drain-delay-secs 30 --grpc-use-ssl \
         --metrics-config summary=true --trace-config file=/x --trace-config rate=0",
    );
    let expected = [
        "--grpc-use-ssl is not supported: use --tls-cert, --tls-key and --client-ca, which hold for HTTP too",
        "--load-model needs --model-control-mode explicit",
        "--model-repository PATH is missing: name a model file, a model directory or a directory of models",
        "--metrics-config summary: unknown, expected counter_latencies or histogram_latencies",
        "--http-port and --grpc-port are both 8000",
        "--drain-delay-secs 30 must be shorter than --exit-timeout-secs 30",
        "--trace-config file is not supported: traces go to the log; use --log-file",
        "--trace-config: invalid value '0' for setting 'trace_rate': expected an integer from 1",
    ];
    assert_eq!(found, expected);
}

#[test]
fn numbers_are_accepted_as_helm_and_yaml_print_them() {
    let polled = |seconds: &str| config(&format!("--model-control-mode poll --repository-poll-secs={seconds}")).control;
    let poll = |ms| ControlMode::Poll(std::time::Duration::from_millis(ms));
    assert_eq!(polled("600.0"), poll(600_000));
    assert_eq!(polled("6e+02"), poll(600_000));
    assert_eq!(polled("0.5"), poll(500));
    for wrong in ["-1", "nan", "inf", "5e9", "1s", ""] {
        let error = usage(&format!("--repository-poll-secs={wrong}"));
        assert!(error.contains("expected seconds from 0 to 4294967295"), "{error}");
    }
    let limits = config("--max-inflight-bytes=1.073741824e+09 --max-queue 16.0 --model-load-retry-count=2.0");
    assert_eq!((limits.max_inflight, limits.max_queue.get()), (1 << 30, 16));
    assert_eq!(limits.load_retries, 2);
    assert!(usage("--max-queue 16.5").contains("invalid digit"));
    assert!(usage("--max-queue 0.0").contains("zero"));
}

#[test]
fn summaries_are_accepted_without_effect() {
    let notes = config("--metrics-config summary_latencies=true --metrics-config summary_quantiles=0.5:0.05").notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("histogram_latencies=true"), "{notes:?}");
    assert!(config("--metrics-config summary_latencies=false").notes.is_empty());
}

#[test]
fn unguarded_operators_are_names_or_all() {
    let allowed = |flags: &str| config(flags).unguarded_operators;
    let flag = "--allow-unguarded-operators";
    assert!(!allowed("").allow("aten::a"));
    let some = allowed(&format!("{flag}=aten::a,aten::b {flag} onednn::c"));
    for (name, expected) in [("aten::a", true), ("aten::b", true), ("onednn::c", true), ("aten::c", false)] {
        assert_eq!(some.allow(name), expected, "{name}");
    }
    assert!(allowed(&format!("{flag}=aten::a,all")).allow("onednn::c"));
    for value in ["add", "::add", "aten::"] {
        let error = usage(&format!("--model-repository /m {flag}={value}"));
        assert!(error.contains(flag) && error.contains("name of an operator"), "{error}");
    }
}

#[test]
fn models_may_contain_code_unless_it_is_forbidden() {
    use crate::backend::ModelCode;
    assert_eq!(config("").model_code, ModelCode::Allow);
    assert_eq!(config("--model-code=forbid").model_code, ModelCode::Forbid);
    assert!(usage("--model-repository /m --model-code=no").contains("--model-code"));
}

#[test]
fn a_path_without_its_flag_gets_an_error_with_the_flag() {
    let told = usage("models/a.pt");
    assert!(told.contains("unexpected argument 'models/a.pt'"), "{told}");
    assert!(told.contains("--model-repository models/a.pt"), "{told}");
    assert!(!usage("--model-repositry /m").contains("follows a flag"));
}

#[test]
fn refused_flags_may_be_switched_off() {
    let flags = "--grpc-use-ssl=false --allow-sagemaker 0 --rate-limit=off --allow-vertex-ai=False";
    assert!(config(flags).notes.is_empty());
    assert_eq!(errors("--model-repository /m --rate-limit=execution_count").len(), 1);
}

#[test]
fn torchserves_flags_of_kserves_samples_are_accepted_with_a_note() {
    let config = config("--disable-token-auth --enable-model-api");
    assert_eq!(config.notes.len(), 2, "{:?}", config.notes);
}

#[test]
fn harmless_flags_are_accepted_with_a_note() {
    let config = config("--cache-config local,size=1048576 --host-policy=gpu_0,numa-node=0");
    assert_eq!(
        config.notes,
        [
            "--cache-config accepted without effect: there is no response cache",
            "--host-policy accepted without effect: the operating system places threads",
        ]
    );
}

#[test]
fn old_spellings_keep_their_meaning() {
    let config = config("--strict-model-config=true --log-verbose=true");
    assert_eq!(config.auto_complete, AutoComplete::Off);
    assert_eq!(config.logs.levels.verbose, 1);
}

#[test]
fn a_typo_is_answered_with_the_nearest_flag() {
    let text = usage("--model-repositry /m");
    assert!(text.contains("--model-repository"), "{text}");
}

#[test]
fn restrictions_name_groups_and_headers() {
    let config = config(
        "--http-restricted-api=health,shared-memory:X-Key=a=b \
         --grpc-restricted-protocol=inference:infer-key=v",
    );
    let rule = &config.http.unwrap().restricted[0];
    assert_eq!(rule.groups, [ApiGroup::Health, ApiGroup::SharedMemory]);
    assert_eq!((rule.header.as_str(), rule.value.as_str()), ("x-key", "a=b"));
    let rule = &config.grpc.unwrap().restricted[0];
    assert_eq!(rule.header, "triton-grpc-protocol-infer-key");
    assert!(usage("--http-restricted-api=everything:a=b").contains("unknown group 'everything'"));
    let twice = "--model-repository /m --http-restricted-api=health:a=b --http-restricted-api=health:c=d";
    assert_eq!(errors(twice), ["--http-restricted-api restricts group 'health' more than once"]);
}

#[test]
fn the_help_of_restrictions_names_every_group_that_they_take() {
    let command = command();
    let flags = [("http_restricted_api", ApiGroup::Reflection), ("grpc_restricted_protocol", ApiGroup::Metrics)];
    for (flag, other) in flags {
        let mut args = command.get_arguments();
        let help = args.find(|arg| arg.get_id() == flag).unwrap().get_help();
        let help = help.unwrap().to_string();
        for group in ApiGroup::ALL {
            let name = group.name();
            assert_eq!(help.contains(name), group != other, "{flag}: {name}");
        }
    }
}

#[test]
fn forwarded_headers_match_in_any_place_and_case() {
    let forward = config("--http-header-forward-pattern=^X-.").http.unwrap().forward.unwrap();
    assert!(forward.is_match("x-abc") && !forward.is_match("a-x-a"));
}

#[test]
fn settings_of_backends_metrics_and_traces_are_read() {
    let config = config(
        "--backend-config=pytorch,inter_op_thread_count=2 --backend-config=,default-max-batch-size=8 \
         --metrics-config histogram_latencies=true --trace-config triton,rate=5 \
         --trace-config level=TIMESTAMPS --trace-config level=TENSORS",
    );
    let note = |setting: &str| {
        format!(
            "--backend-config {setting} accepted without effect: a model's settings are parameters of its config.pbtxt"
        )
    };
    let settings = ["pytorch,inter_op_thread_count=2", ",default-max-batch-size=8"];
    assert_eq!(config.notes, settings.map(note));
    assert!(config.metrics.unwrap().options.histogram_latencies);
    assert_eq!(config.trace.rate, 5);
    assert_eq!(config.trace.level, crate::settings::trace::TraceLevel::Both);
}

#[test]
fn exit_codes_are_fixed() {
    let exit = |flags: &str| parse(format!("weir-runtime {flags}").split_whitespace()).unwrap_err().exit();
    assert_eq!(exit("--help"), Exit::Done);
    assert_eq!(exit("--nonsense"), Exit::Usage);
    assert_eq!(exit(""), Exit::Usage);
}
