use super::*;
use weir_protocol::{Code, Coded};

fn store() -> TraceStore {
    TraceStore::new(TraceSettings::default())
}

fn change(store: &TraceStore, model: Option<&str>, body: &str) -> Result<TraceSettings, SettingsError> {
    store.update(model, &update_from_json(body.as_bytes())?)
}

#[test]
fn every_value_is_a_string() {
    let expected = json!({
        "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0",
        "trace_file": "", "trace_mode": "triton",
    });
    assert_eq!(store().current(None).to_json(), expected);
}

#[test]
fn a_model_overrides_all_and_null_clears() {
    let store = store();
    change(&store, None, r#"{"trace_rate": "10"}"#).unwrap();
    let own = r#"{"trace_level": ["TIMESTAMPS", "TENSORS"], "trace_rate": "5"}"#;
    let trace = change(&store, Some("m"), own).unwrap();
    assert_eq!((trace.level, trace.rate), (TraceLevel::Both, 5));
    assert_eq!(store.current(Some("other")).rate, 10);
    assert_eq!(change(&store, Some("m"), r#"{"trace_rate": null}"#).unwrap().rate, 10);
    assert_eq!(change(&store, None, r#"{"trace_rate": null}"#).unwrap().rate, 1000);
    assert_eq!(store.current(Some("m")).level, TraceLevel::Both);
}

#[test]
fn a_refused_change_changes_nothing() {
    let store = store();
    let error = change(&store, None, r#"{"trace_count": "7", "trace_rate": "0"}"#).unwrap_err();
    assert_eq!(error.to_string(), "invalid value '0' for setting 'trace_rate': expected an integer from 1");
    assert_eq!(store.current(None), TraceSettings::default());
}

#[test]
fn invalid_settings_are_named() {
    for (body, code, text) in [
        (r#"{"trace_color": "red"}"#, Code::InvalidArgument, "unknown trace setting 'trace_color'"),
        (
            r#"{"trace_file": "/etc/x"}"#,
            Code::Unimplemented,
            "trace file location can not be updated through network protocol",
        ),
        (
            r#"{"trace_mode": "opentelemetry"}"#,
            Code::Unimplemented,
            "trace mode 'opentelemetry' is not supported: traces go to the log",
        ),
        (
            r#"{"trace_level": ["OFF", "TENSORS"]}"#,
            Code::InvalidArgument,
            "invalid value 'OFF' for setting 'trace_level': expected OFF alone, or TIMESTAMPS and TENSORS",
        ),
        (
            r#"{"trace_rate": {"a": 1}}"#,
            Code::InvalidArgument,
            "invalid value '{\"a\":1}' for setting 'trace_rate': expected a string",
        ),
    ] {
        for model in [None, Some("m")] {
            let error = change(&store(), model, body).unwrap_err();
            assert_eq!((error.code(), error.to_string().as_str()), (code, text));
        }
    }
}

#[test]
fn a_repeated_setting_is_refused() {
    let body = r#"{"trace_rate": "1", "trace_count": "2", "trace_rate": "3"}"#;
    let error = change(&store(), None, body).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Code::InvalidArgument, "duplicate key 'trace_rate' in request")
    );
}

#[test]
fn deep_json_is_refused() {
    let body = "[".repeat(250_000);
    assert!(matches!(update_from_json(body.as_bytes()), Err(SettingsError::Body(_))));
    let body = format!(r#"{{"trace_rate": {}"#, "[".repeat(250_000));
    assert!(matches!(update_from_json(body.as_bytes()), Err(SettingsError::Body(_))));
}

#[test]
fn one_request_in_rate_is_traced_until_the_count_is_reached() {
    let mut trace = TraceSettings { level: TraceLevel::Timestamps, rate: 3, ..TraceSettings::default() };
    let traced = |trace: &TraceSettings| (0..10).filter(|n| trace.should_trace(*n)).collect::<Vec<_>>();
    assert_eq!(traced(&trace), [0, 3, 6, 9]);
    trace.count = Some(2);
    assert_eq!(traced(&trace), [0, 3]);
    trace.level = TraceLevel::Off;
    assert!(traced(&trace).is_empty());
}

#[test]
fn grpc_reads_and_reports_the_same_settings() {
    let value = |value: &[&str]| proto::trace_setting_request::SettingValue {
        value: value.iter().map(ToString::to_string).collect(),
    };
    let request = proto::TraceSettingRequest {
        settings: [("trace_rate".to_owned(), value(&["7"])), ("trace_count".to_owned(), value(&[]))].into(),
        model_name: String::new(),
    };
    let trace = store().update(None, &update_from_proto(request)).unwrap();
    let response = trace.to_proto();
    assert_eq!(response.settings["trace_rate"].value, ["7"]);
    assert_eq!(response.settings["trace_count"].value, ["-1"]);
    assert_eq!(response.settings["trace_level"].value, ["OFF"]);
}

#[test]
fn one_in_rate_requests_is_sampled_up_to_the_count() {
    let store = store();
    assert_eq!(store.sample("m"), TraceLevel::Off);
    let on = r#"{"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "2"}"#;
    change(&store, Some("m"), on).unwrap();
    let sampled: Vec<bool> = (0..8).map(|_| store.sample("m") != TraceLevel::Off).collect();
    assert_eq!(sampled, [true, false, true, false, false, false, false, false]);
    assert_eq!(store.sample("other"), TraceLevel::Off);
    change(&store, Some("m"), r#"{"trace_level": null}"#).unwrap();
    assert_eq!(store.sample("m"), TraceLevel::Off);
}

#[test]
fn each_model_with_its_own_settings_has_its_own_count() {
    let store = store();
    let on = r#"{"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "2"}"#;
    change(&store, Some("m"), on).unwrap();
    let mut traced = 0;
    for _ in 0..9 {
        store.sample("other");
        traced += u32::from(store.sample("m") != TraceLevel::Off);
    }
    assert_eq!(traced, 2, "others count for nothing");
    // Neither reading the settings nor changing another model's settings restarts the count.
    change(&store, Some("m"), "{}").unwrap();
    change(&store, Some("other"), r#"{"trace_rate": "5"}"#).unwrap();
    assert_eq!(store.sample("m"), TraceLevel::Off);
    change(&store, Some("m"), r#"{"trace_count": "1"}"#).unwrap();
    assert_eq!(store.sample("m"), TraceLevel::Timestamps);
}
