use weir_protocol::DataType;
use weir_protocol::rest::{
    Health, IndexEntry, ModelMetadata, ServerMetadata, decode_index, decode_load, decode_region, decode_unload,
    error_body, live, model_list, model_metadata, model_ready, ready, repository_index, server_metadata,
};

use crate::{refused, spec};

#[test]
fn health() {
    assert_eq!(live(Health::Up), "{\"live\":true}");
    assert_eq!(ready(Health::Down), "{\"ready\":false}");
    assert_eq!(model_ready("m\"", Health::Up), "{\"name\":\"m\\\"\",\"ready\":true}");
    assert_eq!(error_body("a \"b\"\n"), "{\"error\":\"a \\\"b\\\"\\n\"}");
}

#[test]
fn a_long_message_is_shortened() {
    let name = "x".repeat(10_000_000);
    let body = error_body(&format!("unexpected input '{name}' for model 'm'"));
    assert!(body.len() < 20_000, "{}", body.len());
    assert!(body.starts_with(b"{\"error\":\"unexpected input 'xx"));
    assert!(body.ends_with(b"xx' for model 'm'\"}"));
}

#[test]
fn metadata() {
    let server = ServerMetadata { name: "triton", version: "2.0", extensions: &["statistics", "logging"] };
    assert_eq!(server_metadata(&server), r#"{"name":"triton","version":"2.0","extensions":["statistics","logging"]}"#);
    let model = ModelMetadata {
        name: "m",
        versions: &["1".to_owned()],
        platform: "pytorch_libtorch",
        inputs: &[spec("x", DataType::Fp32, &[-1, 3])],
        outputs: &[],
    };
    assert_eq!(
        model_metadata(&model),
        r#"{"name":"m","versions":["1"],"platform":"pytorch_libtorch","inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}],"outputs":[]}"#
    );
    assert_eq!(model_list(&["a".to_owned(), "b".to_owned()]), "{\"models\":[\"a\",\"b\"]}");
}

#[test]
fn index() {
    let entries = [
        IndexEntry {
            name: "a".to_owned(),
            version: Some("1".to_owned()),
            state: Some("UNAVAILABLE".to_owned()),
            reason: Some("unloaded".to_owned()),
        },
        IndexEntry { name: "b".to_owned(), ..IndexEntry::default() },
    ];
    assert_eq!(
        repository_index(&entries),
        r#"[{"name":"a","version":"1","state":"UNAVAILABLE","reason":"unloaded"},{"name":"b"}]"#
    );
    assert!(!decode_index(b"").unwrap().ready);
    assert!(!decode_index(b"{}").unwrap().ready);
    assert!(decode_index(b"{\"x\":[1],\"ready\":true}").unwrap().ready);
    refused(decode_index(b"{\"ready\":1}"), "Invalid value for 'ready': expected a boolean");
    refused(decode_index(b"[]"), "Unable to parse 'request': attempt to access JSON non-object as object");
}

#[test]
fn load() {
    assert_eq!(decode_load(b"").unwrap(), decode_load(b"{\"parameters\":null}").unwrap());
    let body = br#"{"parameters":{"config":"{\"a\":1}","file:1/model.pt":"AP8="},"other":[1]}"#;
    let request = decode_load(body).unwrap();
    assert_eq!(request.config.as_deref(), Some("{\"a\":1}"));
    assert_eq!(request.files, [("1/model.pt".to_owned(), b"\0\xff"[..].to_vec().into())]);
    let broken = br#"{"parameters":{"file:1/model.pt":"A\nP8\r\n=\n"}}"#;
    assert_eq!(decode_load(broken).unwrap().files, request.files);
    refused(
        decode_load(b"{\"parameters\":{\"config\":{}}}"),
        "Unable to parse 'config': attempt to access JSON non-string as string",
    );
    refused(
        decode_load(b"{\"parameters\":{\"file:1/x\":\"=\"}}"),
        "Unable to parse 'file:1/x': Invalid symbol 61, offset 0.",
    );
    refused(decode_load(b"{\"parameters\":{\"other\":\"x\"}}"), "unrecognized load parameter 'other'.");
    refused(
        decode_load(b"{\"parameters\":{\"config\":\"{}\",\"config\":\"{ }\"}}"),
        "duplicate key 'config' in parameters",
    );
    refused(decode_load(b"{\"parameters\":{},\"parameters\":{}}"), "duplicate key 'parameters' in request");
    let deep = "{\"parameters\":".repeat(200);
    refused(decode_load(deep.as_bytes()), "unrecognized load parameter 'parameters'.");
}

#[test]
fn unload() {
    assert!(!decode_unload(b"").unwrap().unload_dependents);
    let body = b"{\"parameters\":{\"unload_dependents\":true}}";
    assert!(decode_unload(body).unwrap().unload_dependents);
    refused(
        decode_unload(b"{\"parameters\":{\"unload_dependents\":1}}"),
        "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean",
    );
    let deep = format!("{{\"x\":{}", "[".repeat(200));
    refused(decode_unload(deep.as_bytes()), "JSON nesting depth exceeds maximum allowed limit (100)");
}

#[test]
fn regions() {
    let region = decode_region(b"{\"key\":\"/k\",\"byte_size\":64,\"x\":[]}").unwrap();
    assert_eq!((region.key.as_str(), region.offset, region.byte_size), ("/k", 0, 64));
    let region = decode_region(b"{\"key\":\"/k\",\"offset\":8,\"byte_size\":64}").unwrap();
    assert_eq!(region.offset, 8);
    let missing = |name| format!("Unable to parse '{name}': attempt to access non-existing object member '{name}'");
    refused(decode_region(b""), &missing("key"));
    refused(decode_region(b"{\"key\":\"/k\"}"), &missing("byte_size"));
    refused(
        decode_region(b"{\"key\":\"/k\",\"byte_size\":-1}"),
        "Unable to parse 'byte_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
    );
    refused(
        decode_region(b"{\"key\":\"/k\",\"byte_size\":64,\"byte_size\":8}"),
        "duplicate key 'byte_size' in request",
    );
    refused(decode_region(b"[\"/k\",0,64]"), "Unable to parse 'request': attempt to access JSON non-object as object");
}
