//! AdmissionReviews of version 1 as responses to an API server. Pure.

use serde_json::{Value, json};
use weir_controller::FieldError;

use super::request::Request;
use super::verdict::Verdict;

/// Most errors that are listed; the response gives only the number of further ones. Users do not correct more at once,
/// and a response must be small.
const MAX_ERRORS: usize = 64;

/// Most warnings in a response: an API server passes on 4096 bytes of them.
const MAX_WARNINGS: usize = 16;

/// Byte limit of one text, because the value that it repeats may be as large as the object.
const MAX_TEXT: usize = 1024;

/// HTTP status for an object with invalid fields, as the API server itself uses it.
const INVALID: u16 = 422;

/// Returns the review that answers a request.
pub(crate) fn review(request: &Request, verdict: &Verdict) -> Value {
    let mut response = json!({"uid": request.uid, "allowed": verdict.errors.is_empty()});
    if !verdict.errors.is_empty() {
        response["status"] = refusal(request, &verdict.errors);
    }
    if !verdict.warnings.is_empty() {
        let warnings = verdict.warnings.iter().take(MAX_WARNINGS);
        response["warnings"] = warnings.map(|text| shortened(text)).collect();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// Returns the errors both as a sentence and by field, which kubectl shows one per line.
fn refusal(request: &Request, errors: &[FieldError]) -> Value {
    let named = &errors[..errors.len().min(MAX_ERRORS)];
    let mut texts: Vec<_> = named.iter().map(|error| shortened(&error.to_string())).collect();
    let mut causes: Vec<_> = named.iter().map(|error| cause(&error.field, &error.message)).collect();
    let more = errors.len() - named.len();
    if more > 0 {
        let text = format!("and {more} more errors");
        causes.push(cause("", &text));
        texts.push(text);
    }
    json!({
        "status": "Failure",
        "code": INVALID,
        "reason": "Invalid",
        "message": texts.join("; "),
        "details": {
            "group": request.kind.group,
            "kind": request.kind.kind,
            "name": request.name,
            "causes": causes,
        },
    })
}

fn cause(field: &str, message: &str) -> Value {
    json!({"reason": "FieldValueInvalid", "field": shortened(field), "message": shortened(message)})
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::super::request;
    use super::*;

    fn request() -> Request {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "name": "digits", "operation": "CREATE",
            "kind": {"group": "serving.kserve.io", "kind": "InferenceService"},
        }});
        request::read(review.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_allowed_object_has_no_status() {
        let review = review(&request(), &Verdict::default());
        assert_eq!(review["response"], json!({"uid": "u", "allowed": true}));
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
    }

    #[test]
    fn a_refusal_names_every_field() {
        let verdict = Verdict {
            errors: vec![FieldError::new("spec.a", "wrong"), FieldError::new("spec.b", "worse")],
            warnings: vec!["spec.c is ignored: so".to_owned()],
        };
        let response = &review(&request(), &verdict)["response"];
        assert_eq!(response["allowed"], false);
        assert_eq!(response["warnings"], json!(["spec.c is ignored: so"]));
        let status = &response["status"];
        assert_eq!(status["message"], "spec.a: wrong; spec.b: worse");
        assert_eq!(status["details"]["name"], "digits");
        assert_eq!(status["details"]["causes"][1]["field"], "spec.b");
    }

    #[test]
    fn a_response_is_small_however_many_errors_there_are() {
        let error = FieldError::new("é".repeat(100_000), "é".repeat(100_000));
        let verdict = Verdict { errors: vec![error; 10_000], warnings: vec!["é".repeat(100_000); 10_000] };
        let review = review(&request(), &verdict);
        assert!(review.to_string().len() < 300_000);
        let message = review["response"]["status"]["message"].as_str().unwrap();
        assert!(message.ends_with("and 9936 more errors"));
    }
}
