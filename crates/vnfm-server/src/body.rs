//! Request bodies: JSON of a known type, in the API version of the client. Malformed JSON is 400; JSON that does not
//! match the type is 422, with the path of the member (SOL013 6.4).

use crate::access::MAX_LOGGED_CHARS;
use crate::listener;
use crate::logs::cut;
use crate::problem::Problem;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use serde_json::{Map, Value};
use vnfm_types::v1::{self, ApiVersion};

mod objects;

/// Maximum size of a JSON body, in bytes.
pub const LARGEST: usize = 1024 * 1024;

/// A JSON body, fully read.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let kind = request
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_owned());
        if !matches!(
            essence.as_deref(),
            None | Some("application/json" | "application/merge-patch+json")
        ) {
            let detail = format!(
                "content type `{}` is not application/json",
                essence.unwrap_or_default()
            );
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "request.media-type",
                detail,
            ));
        }
        let api_version = ApiVersion::of_path(request.uri().path());
        let bytes = read(request.into_body()).await?;
        parse_as(api_version, &bytes).map(Self)
    }
}

/// Parses a body in the client's API version.
///
/// # Errors
///
/// 400 if it is malformed; 422 if it does not match the type.
pub(crate) fn parse_as<T: DeserializeOwned>(
    api_version: ApiVersion,
    bytes: &[u8],
) -> Result<T, Problem> {
    match api_version {
        ApiVersion::V1 => parse_v1(bytes),
        ApiVersion::V2 => parse(bytes),
    }
}

async fn read(body: Body) -> Result<bytes::Bytes, Problem> {
    to_bytes(body, LARGEST).await.map_err(|error| {
        if let Some(problem) = listener::too_slow(&error) {
            return problem;
        }
        let detail = format!("the body is larger than {LARGEST} bytes, or incomplete");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too-large", detail)
    })
}

/// Parses `bytes`; an error names the member, such as `vimConnectionInfo.vim1.vimId`.
///
/// # Errors
///
/// 400 if it is malformed; 422 if it does not match the type.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would read a list as the members of an object, in order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let detail =
            "the body does not match the resource's data type: it is a list instead of an object";
        return Err(problem(is_json(bytes), detail));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| problem(error.inner().is_data() && is_json(bytes), describe(&error)))?;
    deserializer.end().map_err(|error| {
        Problem::bad_request(format!("unexpected text after the JSON body: {error}"))
    })?;
    let body = serde_json::from_slice(bytes).ok();
    refuse_lists::<T>(body.as_ref())?;
    Ok(value)
}

/// Refuses a list where `T` expects an object, at any depth.
fn refuse_lists<T: DeserializeOwned>(body: Option<&Value>) -> Result<(), Problem> {
    match body.and_then(objects::list_for_object::<T>) {
        Some((path, what)) => Err(problem(
            true,
            format!("`{}`: {what}", cut(&path, MAX_LOGGED_CHARS)),
        )),
        None => Ok(()),
    }
}

/// As [`parse`], for a body of `vnflcm/v1`.
fn parse_v1<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut body = parse::<Map<String, Value>>(bytes)?;
    v1::request(&mut body).map_err(|what| problem(true, what))?;
    let body = Value::Object(body);
    let value =
        serde_path_to_error::deserialize(&body).map_err(|error| problem(true, describe(&error)))?;
    refuse_lists::<T>(Some(&body))?;
    Ok(value)
}

/// Whether the entire body is JSON: it may be truncated after a member with a wrong type.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// 422 for JSON that does not match the type, 400 for malformed JSON.
fn problem(is_json: bool, what: impl Into<String>) -> Problem {
    if is_json {
        Problem::schema_mismatch(what)
    } else {
        Problem::bad_request(what)
    }
}

/// Describes an error with the path of the member but without its value, which may be a misplaced secret.
fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let inner = error.inner();
    let detail = match inner.classify() {
        Category::Data => without_value(&inner.to_string()),
        // Contains position and cause, but none of the text.
        _ => inner.to_string(),
    };
    match error.path().to_string().as_str() {
        "." => format!("the body does not match the resource's data type: {detail}"),
        path => format!("`{}`: {detail}", cut(path, MAX_LOGGED_CHARS)),
    }
}

/// Removes the value from serde's message: of `invalid type: string "…", expected a map`, only the type remains. What
/// is expected is our own text, after the last `, expected `, whatever the value is.
fn without_value(message: &str) -> String {
    const NAMED: &[&str] = &["unknown field `", "missing field `", "duplicate field `"];
    let (what, position) = message.rsplit_once(" at line ").unwrap_or((message, ""));
    let position = if position.is_empty() {
        String::new()
    } else {
        format!(" at line {position}")
    };
    if NAMED.iter().any(|start| what.starts_with(start)) {
        return format!("{}{position}", cut(what, MAX_LOGGED_CHARS));
    }
    let expected = what
        .rsplit_once(", expected ")
        .map(|(_, expected)| expected);
    let kind = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| Some((start, what.strip_prefix(start)?)));
    match (kind, expected) {
        (Some((start, value)), Some(expected)) => {
            let value = value
                .rsplit_once(", expected ")
                .map_or(value, |(value, _)| value);
            let kind: Vec<_> = value.split(' ').take_while(|word| is_word(word)).collect();
            format!("{start}{}, expected {expected}{position}", kind.join(" "))
        }
        (None, Some(expected)) if what.starts_with("unknown variant `") => {
            format!("unknown value, expected {expected}{position}")
        }
        _ => format!("the value is not valid for this member{position}"),
    }
}

/// Whether a word is part of serde's description of a value: `string`, `floating`, `byte`.
fn is_word(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "string",
        "boolean",
        "integer",
        "floating",
        "point",
        "character",
        "byte",
        "array",
        "unit",
        "value",
        "Option",
        "newtype",
        "struct",
        "sequence",
        "map",
        "enum",
        "null",
        "variant",
        "tuple",
    ];
    WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use vnfm_types::{InstantiateVnfRequest, VnfInfoModificationRequest};

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        let body = br#"{"flavourId": "f", "vimConnectionInfo": {"vim1": {"vimId": 7}}}"#;
        let problem = parse::<InstantiateVnfRequest>(body).unwrap_err();
        assert_eq!(problem.details().status, 422);
        let detail = &problem.details().detail;
        assert!(
            detail.starts_with("`vimConnectionInfo.vim1.vimId`: invalid type"),
            "{detail}"
        );
    }

    #[test]
    fn error_messages_never_contain_the_value() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only the error messages matter")]
        struct Body {
            map: Option<std::collections::BTreeMap<String, String>>,
            number: Option<u8>,
            kind: Option<vnfm_types::CancelMode>,
            at: Option<jiff::Timestamp>,
        }
        let secret = "PLANTED\\\", expected PLANTED at line 1";
        for (member, expected) in [
            ("map", "invalid type: string, expected a map"),
            ("number", "invalid type: string, expected u8"),
            ("kind", "unknown value, expected "),
            ("at", "the value is not valid for this member"),
        ] {
            let body = format!(r#"{{"{member}": "{secret}"}}"#);
            let problem = parse::<Body>(body.as_bytes()).unwrap_err();
            let detail = &problem.details().detail;
            assert!(
                detail.starts_with(&format!("`{member}`: {expected}")),
                "{detail}"
            );
            assert!(!detail.contains("PLANTED"), "{detail}");
        }
        for (value, kind) in [
            ("4711", "integer"),
            ("47.5", "floating point"),
            ("[4711]", "sequence"),
        ] {
            let body = format!(r#"{{"map": {value}}}"#);
            let problem = parse::<Body>(body.as_bytes()).unwrap_err();
            let detail = &problem.details().detail;
            assert!(
                detail.contains(&format!("invalid type: {kind}, expected a map")),
                "{detail}"
            );
            assert!(!detail.contains("47"), "{detail}");
        }
    }

    #[test]
    fn a_list_is_not_accepted_as_an_object() {
        let problem = parse::<VnfInfoModificationRequest>(b" []").unwrap_err();
        assert!(
            problem.details().detail.contains("a list"),
            "{:?}",
            problem.details()
        );
    }

    #[test]
    fn a_list_is_not_accepted_as_an_object_at_any_depth() {
        for (body, path) in [
            (
                r#"{"flavourId": "f", "vimConnectionInfo": {"vim1": []}}"#,
                "`vimConnectionInfo.vim1`",
            ),
            (
                r#"{"flavourId": "f", "vimConnectionInfo": {"vim1": ["id", "type"]}}"#,
                "`vimConnectionInfo.vim1`",
            ),
            (
                r#"{"flavourId": "f", "extVirtualLinks": [[]]}"#,
                "`extVirtualLinks[0]`",
            ),
        ] {
            let problem = parse::<InstantiateVnfRequest>(body.as_bytes()).unwrap_err();
            let details = problem.details();
            assert_eq!(details.status, 422, "{details:?}");
            assert!(details.detail.starts_with(path), "{details:?}");
        }
        for policy in [
            "[]",
            r#"[["web"]]"#,
            r#"{"limits": []}"#,
            r#"{"kinds": [["BUILTIN"]]}"#,
        ] {
            let problem = parse::<vnfm_types::VimPolicy>(policy.as_bytes()).unwrap_err();
            assert_eq!(
                problem.details().status,
                422,
                "{policy}: {:?}",
                problem.details()
            );
        }
        let good = br#"{"namespaces": ["OWN"], "kinds": {"allow": ["BUILTIN"]}, "podSecurity": "baseline", "limits": {"pods": 3}}"#;
        parse::<vnfm_types::VimPolicy>(good).unwrap();
    }

    #[test]
    fn malformed_json_is_400_and_mismatching_json_is_422() {
        for (body, status) in [
            (&b"{\"flavourId\": 7}"[..], 422),
            (b"{\"flavourId\": 7", 400),
            (b"{\"flavourId\": 7} x", 400),
            (b"{\"flavourId\": 7, \"flavourId\": }", 400),
            (b"{\"flavourId\": \"f\", \"flavourId\": \"g\"}", 422),
            (b"{}", 422),
            (b"null", 422),
            (b"7", 422),
            (b"[]", 422),
            (b"[", 400),
            (b"", 400),
            (b"\xff", 400),
        ] {
            let problem = parse::<InstantiateVnfRequest>(body).unwrap_err();
            assert_eq!(
                problem.details().status,
                status,
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn malformed_json_is_reported_with_line_and_column() {
        let problem = parse::<InstantiateVnfRequest>(b"{flavourId}").unwrap_err();
        assert!(
            problem.details().detail.contains("line 1 column 2"),
            "{:?}",
            problem.details()
        );
    }
}
