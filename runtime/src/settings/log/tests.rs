use super::*;
use weir_protocol::{Code, Coded};

fn store() -> (LogStore, Arc<Mutex<Vec<Levels>>>) {
    let applied = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&applied);
    let apply: ApplyLevels = Arc::new(move |levels| {
        seen.lock().push(levels);
        Ok(())
    });
    (LogStore::new(LogSettings::at_start(&Settings::default()), apply), applied)
}

fn change(store: &LogStore, body: &str) -> Result<LogSettings, SettingsError> {
    store.update(&update_from_json(body.as_bytes())?)
}

#[test]
fn a_change_is_applied_and_reported() {
    let (store, applied) = store();
    let shown = change(&store, r#"{"log_info": false, "log_verbose_level": 2, "log_format": "ISO8601"}"#);
    let expected = json!({
        "log_file": "", "log_info": false, "log_warning": true, "log_error": true,
        "log_verbose_level": 2, "log_format": "ISO8601",
    });
    assert_eq!(shown.unwrap().to_json(), expected);
    assert_eq!(store.current().to_json(), expected);
    let levels = applied.lock()[0];
    assert_eq!((levels.info, levels.verbose), (false, 2));
}

#[test]
fn invalid_settings_are_named_and_nothing_is_applied() {
    let (store, applied) = store();
    for (body, code, text) in [
        (r#"{"log_color": true}"#, Code::InvalidArgument, "unknown log setting 'log_color'"),
        (
            r#"{"log_file": "/etc/x"}"#,
            Code::Unimplemented,
            "log file location can not be updated through network protocol",
        ),
        (
            r#"{"log_info": "yes"}"#,
            Code::InvalidArgument,
            "invalid value 'yes' for setting 'log_info': expected true or false",
        ),
        (
            r#"{"log_verbose_level": -1}"#,
            Code::InvalidArgument,
            "invalid value '-1' for setting 'log_verbose_level': expected a boolean, an integer from 0 or a string",
        ),
        (r#"{"log_info": true, "log_info": false}"#, Code::InvalidArgument, "duplicate key 'log_info' in request"),
        (
            r#"{"log_format": "xml"}"#,
            Code::InvalidArgument,
            "invalid value 'xml' for setting 'log_format': expected 'default' or 'ISO8601'",
        ),
    ] {
        let error = change(&store, body).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, text));
    }
    assert!(applied.lock().is_empty());
}

#[test]
fn grpc_reads_and_reports_the_same_settings() {
    use proto::log_settings_request::{SettingValue, setting_value::ParameterChoice};
    let value = |choice| SettingValue { parameter_choice: choice };
    let request =
        |choice| proto::LogSettingsRequest { settings: [("log_verbose_level".to_owned(), value(choice))].into() };
    let (store, _) = store();
    let update = update_from_proto(request(Some(ParameterChoice::Uint32Param(3)))).unwrap();
    let message = store.update(&update).unwrap().to_proto();
    let shown = message.settings["log_verbose_level"].parameter_choice.clone();
    let expected = proto::log_settings_response::setting_value::ParameterChoice::Uint32Param(3);
    assert_eq!(shown, Some(expected));
    assert!(update_from_proto(request(None)).is_err());
}
