//! Request bodies: JSON of a known type, in the API version of the client. Malformed JSON is 400; JSON that does not
//! match the type is 422, with the path of the member (SOL013 6.4).

use crate::listener;
use crate::problem::Problem;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use vnfm_core::json::{self, JsonError};
use vnfm_core::lcm;
use vnfm_types::v1::{self, ApiVersion};

/// Maximum size of a JSON body, in bytes.
pub(crate) const LARGEST: usize = 1024 * 1024;

/// A JSON body, fully read.
pub(crate) struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let UnparsedJson(api_version, bytes) = UnparsedJson::from_request(request, state).await?;
        parse_as(api_version, &bytes).map(Self)
    }
}

/// A body that should be JSON, and the client's API version.
pub(crate) struct UnparsedJson(ApiVersion, Bytes);

impl UnparsedJson {
    /// The request of an operation, as its data type has it.
    ///
    /// # Errors
    ///
    /// Those of [`parse_as`]: the body does not match its type.
    pub(crate) fn parse(&self, body: &lcm::Body) -> Result<Value, Problem> {
        let parsed = match self.0 {
            ApiVersion::V1 => body.read(&from_v1(&self.1)?),
            ApiVersion::V2 => body.parse(&self.1),
        };
        Ok(parsed?)
    }
}

impl<S: Sync> FromRequest<S> for UnparsedJson {
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
        Ok(Self(api_version, bytes))
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
        ApiVersion::V1 => Ok(json::from_value(&from_v1(bytes)?)?),
        ApiVersion::V2 => Ok(json::parse(bytes)?),
    }
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    to_bytes(body, LARGEST).await.map_err(|error| {
        if let Some(problem) = listener::too_slow(&error) {
            return problem;
        }
        let detail = format!("the body is larger than {LARGEST} bytes, or incomplete");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too-large", detail)
    })
}

/// Converts a body of `vnflcm/v1` to the form of `v2`.
fn from_v1(bytes: &[u8]) -> Result<Value, Problem> {
    let mut body = json::parse::<Map<String, Value>>(bytes)?;
    v1::request(&mut body).map_err(Problem::schema_mismatch)?;
    Ok(Value::Object(body))
}

/// 422 for JSON that does not match the type, 400 for malformed JSON.
impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        if error.is_json {
            Self::schema_mismatch(error.to_string())
        } else {
            Self::bad_request(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::problem::Problem;
    use serde::de::DeserializeOwned;
    use vnfm_types::v1::ApiVersion;
    use vnfm_types::{InstantiateVnfRequest, VnfInfoModificationRequest};

    fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
        super::parse_as(ApiVersion::V2, bytes)
    }

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
