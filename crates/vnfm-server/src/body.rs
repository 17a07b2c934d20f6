//! Request bodies: JSON of a known type, in the version that the client speaks. What is no JSON is 400; JSON that does
//! not fit the type is 422, with the place (SOL013 6.4).

use crate::access::LOGGED;
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

/// The largest JSON body, in bytes.
pub const LARGEST: usize = 1024 * 1024;

/// A JSON body, read whole.
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
            let what = format!(
                "content type `{}` is not application/json",
                essence.unwrap_or_default()
            );
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "request.media-type",
                what,
            ));
        }
        let edition = ApiVersion::of_path(request.uri().path());
        let bytes = read(request.into_body()).await?;
        parse_as(edition, &bytes).map(Self)
    }
}

/// Parses a body in the version that the client speaks.
///
/// # Errors
///
/// 400 where it is not JSON or not of this type.
pub(crate) fn parse_as<T: DeserializeOwned>(
    edition: ApiVersion,
    bytes: &[u8],
) -> Result<T, Problem> {
    match edition {
        ApiVersion::V1 => parse_v1(bytes),
        ApiVersion::V2 => parse(bytes),
    }
}

async fn read(body: Body) -> Result<bytes::Bytes, Problem> {
    to_bytes(body, LARGEST).await.map_err(|error| {
        if let Some(problem) = listener::too_slow(&error) {
            return problem;
        }
        let what = format!("the body is larger than {LARGEST} bytes, or did not arrive whole");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too-large", what)
    })
}

/// Parses `bytes`; an error names the member, such as `vimConnectionInfo.vim1.vimId`.
///
/// # Errors
///
/// 400 where it is not JSON, 422 where it is not of this type.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would be read as the members of an object, in order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let what = "the body is not what this resource takes: it is a list instead of an object";
        return Err(problem(is_json(bytes), what));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| problem(error.inner().is_data() && is_json(bytes), placed(&error)))?;
    deserializer.end().map_err(|error| {
        Problem::bad_request(format!("there is something after the JSON body: {error}"))
    })?;
    let again = serde_json::from_slice(bytes).ok();
    refuse_lists::<T>(again.as_ref())?;
    Ok(value)
}

/// Refuses a list where a `T` has an object, at any depth.
fn refuse_lists<T: DeserializeOwned>(body: Option<&Value>) -> Result<(), Problem> {
    match body.and_then(objects::list_for_object::<T>) {
        Some((place, what)) => Err(problem(true, format!("`{}`: {what}", cut(&place, LOGGED)))),
        None => Ok(()),
    }
}

/// The same for a body of `vnflcm/v1`.
fn parse_v1<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut body = parse::<Map<String, Value>>(bytes)?;
    v1::request(&mut body).map_err(|what| problem(true, what))?;
    let body = Value::Object(body);
    let value =
        serde_path_to_error::deserialize(&body).map_err(|error| problem(true, placed(&error)))?;
    refuse_lists::<T>(Some(&body))?;
    Ok(value)
}

/// Whether all of a body is JSON. One whose first member has the wrong type may be cut off behind it.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// 422 for JSON that the resource does not take, 400 for what is no JSON.
fn problem(is_json: bool, what: impl Into<String>) -> Problem {
    if is_json {
        Problem::unfit(what)
    } else {
        Problem::bad_request(what)
    }
}

/// An error with the member that it is about, and without its value: that may be a secret that was put in the wrong place.
fn placed(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let inner = error.inner();
    let what = match inner.classify() {
        Category::Data => without_value(&inner.to_string()),
        // It tells the place and what is wrong there, and nothing of the text.
        _ => inner.to_string(),
    };
    match error.path().to_string().as_str() {
        "." => format!("the body is not what this resource takes: {what}"),
        place => format!("`{}`: {what}", cut(place, LOGGED)),
    }
}

/// What serde says of a value, without the value: of `invalid type: string "…", expected a map` the type alone. What is
/// expected is ours, and stands behind the last `expected`, whatever the value is.
fn without_value(said: &str) -> String {
    const NAMED: &[&str] = &["unknown field `", "missing field `", "duplicate field `"];
    let (what, place) = said.rsplit_once(" at line ").unwrap_or((said, ""));
    let place = if place.is_empty() {
        String::new()
    } else {
        format!(" at line {place}")
    };
    if NAMED.iter().any(|start| what.starts_with(start)) {
        return format!("{}{place}", cut(what, LOGGED));
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
            format!("{start}{}, expected {expected}{place}", kind.join(" "))
        }
        (None, Some(expected)) if what.starts_with("unknown variant `") => {
            format!("unknown value, expected {expected}{place}")
        }
        _ => format!("it is not what this member takes{place}"),
    }
}

/// Whether it is a word of serde's own before a value: `string`, `floating`, `byte`.
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
    fn a_value_is_never_repeated() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only what is said of them counts")]
        struct Body {
            map: Option<std::collections::BTreeMap<String, String>>,
            number: Option<u8>,
            kind: Option<vnfm_types::CancelMode>,
            at: Option<jiff::Timestamp>,
        }
        let secret = "PLANTED\\\", expected PLANTED at line 1";
        for (member, says) in [
            ("map", "invalid type: string, expected a map"),
            ("number", "invalid type: string, expected u8"),
            ("kind", "unknown value, expected "),
            ("at", "it is not what this member takes"),
        ] {
            let body = format!(r#"{{"{member}": "{secret}"}}"#);
            let problem = parse::<Body>(body.as_bytes()).unwrap_err();
            let detail = &problem.details().detail;
            assert!(
                detail.starts_with(&format!("`{member}`: {says}")),
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
    fn a_list_is_no_object() {
        let problem = parse::<VnfInfoModificationRequest>(b" []").unwrap_err();
        assert!(
            problem.details().detail.contains("a list"),
            "{:?}",
            problem.details()
        );
    }

    #[test]
    fn a_list_is_no_object_at_any_depth() {
        for (body, place) in [
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
            assert!(details.detail.starts_with(place), "{details:?}");
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
    fn malformed_json_is_400_and_json_of_another_type_is_422() {
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
    fn what_is_not_json_is_said_with_line_and_column() {
        let problem = parse::<InstantiateVnfRequest>(b"{flavourId}").unwrap_err();
        assert!(
            problem.details().detail.contains("line 1 column 2"),
            "{:?}",
            problem.details()
        );
    }
}
