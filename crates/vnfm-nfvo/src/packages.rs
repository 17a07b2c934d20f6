//! VNF packages at the NFVO (SOL003 10, `vnfpkgm/v2`): lookup, download, verification of the checksum; and
//! the subscription to their changes.
//!
//! | request | purpose |
//! |---|---|
//! | `GET /vnf_packages?filter=(eq,vnfdId,…)` | find the package of a VNFD |
//! | `GET /vnf_packages/{vnfPkgId}` | its current state |
//! | `GET /vnf_packages/{vnfPkgId}/package_content` | the archive, resumed with ranges ([`crate::download`]) |
//! | `POST`, `GET`, `DELETE /subscriptions` | notifications of packages that are onboarded, disabled, deleted |
//!
//! The server decides when a package is fetched and where it is stored.

mod checksum;

use crate::download::{Fetcher, Origin};
use crate::grants::{CONFIGURATION, FAILING, NfvoAddress, UNREACHABLE, problem_body, read};
use crate::login::{Login, Logins};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, PortError};
use vnfm_outbound::header::{ACCEPT, LOCATION};
use vnfm_outbound::{
    Client, Destinations, Method, Policy, ReadError, StatusCode, Url, error_chain,
    read as read_body, without_credentials,
};
use vnfm_types::{PackageOnboardingState, PackageOperationalState, Secret};

/// The version of the API (SOL003 V3.7.1).
const VERSION: &str = "2.4.0";
/// Characters of the NFVO's error text that are quoted.
const MAX_QUOTED_CHARS: usize = 500;

/// The NFVO rejected a request.
const REFUSES: Code = Code::new(
    "nfvo.packages-refused",
    Refused,
    "the NFVO rejected a request for its VNF packages",
    "check address and login in `nfvo` of the configuration; the NFVO's reason is in the message",
);
/// The NFVO's response does not conform to SOL003.
const MALFORMED: Code = Code::new(
    "nfvo.package-malformed",
    Refused,
    "the NFVO's response about a VNF package does not conform to SOL003",
    "report it to the operator of the NFVO",
);
/// No package has that VNFD.
pub const ABSENT: Code = Code::new(
    "nfvo.no-package",
    Refused,
    "neither this server nor the NFVO has a VNF package with that VNFD",
    "onboard it at the NFVO, or on this server with `vnfmctl package onboard PATH`",
);
/// The package is still being onboarded at the NFVO.
const NOT_YET: Code = Code::new(
    "nfvo.package-not-onboarded",
    Unavailable,
    "the NFVO has not finished onboarding the VNF package",
    "try again once it is ONBOARDED there",
);
/// The package is disabled at the NFVO.
const DISABLED: Code = Code::new(
    "nfvo.package-disabled",
    Refused,
    "the VNF package is DISABLED at the NFVO",
    "enable it there",
);
/// The archive does not match its checksum.
const HASH: Code = Code::new(
    "nfvo.package-checksum",
    Refused,
    "the archive that the NFVO sent does not match its checksum; it was discarded",
    "compare the package at the NFVO with what its vendor delivered",
);

/// All error codes of this file, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[&REFUSES, &MALFORMED, &ABSENT, &NOT_YET, &DISABLED, &HASH];

/// The NFVO's record of a VNF package.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedPackage {
    /// The package's id at the NFVO.
    pub id: String,
    /// Id of its VNFD, once it is onboarded.
    #[serde(default)]
    pub vnfd_id: Option<String>,
    /// Progress of onboarding at the NFVO.
    pub onboarding_state: PackageOnboardingState,
    /// Whether new instances may be created from it.
    pub operational_state: PackageOperationalState,
    /// An object in SOL005, a string in the OpenAPI files of SOL003.
    #[serde(default)]
    checksum: Value,
}

impl OfferedPackage {
    /// The SHA-256 of its archive in lowercase hexadecimal; `None` if the NFVO states another algorithm.
    pub fn sha256(&self) -> Option<String> {
        let (algorithm, hash) = self.stated_checksum().ok()?;
        (algorithm == "SHA256").then_some(hash)
    }

    /// Checks that the package is onboarded and enabled.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it is not onboarded yet, `Refused` if it is DISABLED.
    pub fn usable(&self) -> Result<(), PortError> {
        let action = format!("use the VNF package `{}` of the NFVO", self.id);
        if self.onboarding_state != PackageOnboardingState::Onboarded {
            let cause = format!("its onboardingState is {}", self.onboarding_state.as_str());
            return Err(PortError::new(&NOT_YET, action, cause).on(self.id.as_str()));
        }
        if self.operational_state == PackageOperationalState::Disabled {
            let cause = "its operationalState is DISABLED";
            return Err(PortError::new(&DISABLED, action, cause).on(self.id.as_str()));
        }
        Ok(())
    }

    /// The algorithm of its checksum, such as `SHA256`, and the hash in lowercase.
    fn stated_checksum(&self) -> Result<(String, String), String> {
        let text = |value: &Value| {
            value
                .as_str()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase()
        };
        let (algorithm, hash) = match &self.checksum {
            Value::Null => return Err("`checksum` is missing".to_owned()),
            Value::String(_) => (String::new(), text(&self.checksum)),
            stated => (text(&stated["algorithm"]), text(&stated["hash"])),
        };
        let is_hex = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let by_length = match hash.len() {
            56 => "SHA224",
            64 => "SHA256",
            96 => "SHA384",
            128 => "SHA512",
            _ => "",
        };
        let stated: String = algorithm
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let stated = stated.to_ascii_uppercase();
        if !is_hex || by_length.is_empty() || !(stated.is_empty() || stated == by_length) {
            return Err("`checksum` is not a SHA-224, SHA-256, SHA-384 or SHA-512".to_owned());
        }
        Ok((by_length.to_owned(), hash))
    }
}

/// The NFVO's representation of a subscription.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionRecord {
    id: String,
    callback_uri: String,
}

/// A client for the NFVO's packages.
pub struct PackageSource {
    client: Client,
    fetcher: Fetcher,
    logins: Arc<Logins>,
    login: Login,
    /// Base URL of the packages, including `/vnfpkgm/v2`.
    root: String,
}

impl PackageSource {
    /// A client for the NFVO at `address`; it does not connect yet.
    ///
    /// # Errors
    ///
    /// `Refused` if the address is not a URL, or certificates cannot be read.
    pub fn new(address: NfvoAddress, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        let invalid = |cause: String| {
            let action = format!(
                "use the NFVO at `{}`",
                without_credentials(&address.endpoint)
            );
            PortError::new(&CONFIGURATION, action, cause)
        };
        let root = format!("{}/vnfpkgm/v2", address.endpoint.trim_end_matches('/'));
        Destinations::anywhere()
            .check(&root)
            .map_err(|error| invalid(error.to_string()))?;
        let client = |policy: Policy| {
            let (tls, proxy) = (&address.tls, address.proxy.as_deref());
            Client::new(Destinations::anywhere(), policy, tls, proxy).map_err(invalid)
        };
        let downloads = client(Policy::DOWNLOAD.with_stall_timeout(address.time))?;
        let logins = Arc::new(Logins::new(clock.clone()));
        Ok(Self {
            client: client(Policy::NFVO.with_timeout(address.time))?,
            fetcher: Fetcher::with(downloads, logins.clone(), clock),
            logins,
            login: address.login,
            root,
        })
    }

    /// The package of a VNFD; if there are several, a usable one.
    ///
    /// # Errors
    ///
    /// `nfvo.no-package` if there is none; or the NFVO is unavailable, rejects the request, or violates SOL003.
    pub async fn find_by_vnfd(&self, vnfd_id: &str) -> Result<OfferedPackage, PortError> {
        let action = format!("find a VNF package with vnfdId `{vnfd_id}` at the NFVO");
        let mut url = self.url("vnf_packages", &action)?;
        let filter = format!("(eq,vnfdId,{})", literal(vnfd_id));
        url.query_pairs_mut().append_pair("filter", &filter);
        let response = self.call(Method::GET, url, None, action).await?;
        let mut all: Vec<OfferedPackage> = response.expect(&[StatusCode::OK])?.parsed()?;
        // An NFVO that ignores the filter must not lead to the wrong VNF.
        all.retain(|one| one.vnfd_id.as_deref() == Some(vnfd_id));
        all.sort_by_key(|one| one.usable().is_err());
        all.into_iter().next().ok_or_else(|| {
            PortError::new(&ABSENT, response.action.as_str(), "there is none").on(vnfd_id)
        })
    }

    /// The NFVO's record of one package; `None` if it was deleted.
    ///
    /// # Errors
    ///
    /// Those of [`PackageSource::find_by_vnfd`]; an unknown id is `None`.
    pub async fn package(&self, id: &str) -> Result<Option<OfferedPackage>, PortError> {
        let action = format!("read the VNF package `{id}` of the NFVO");
        let url = self.package_url(id, &[], &action)?;
        let response = self.call(Method::GET, url, None, action).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        response.expect(&[StatusCode::OK])?.parsed().map(Some)
    }

    /// Downloads an archive of at most `max_bytes` into `to` and verifies its checksum.
    ///
    /// # Errors
    ///
    /// The download failed, or the checksum does not match; then there is no file at `to`.
    pub async fn fetch(
        &self,
        package: &OfferedPackage,
        max_bytes: u64,
        to: &Path,
    ) -> Result<(), PortError> {
        let action = format!("fetch the VNF package `{}` from the NFVO", package.id);
        let stated = package.stated_checksum();
        let stated = stated.map_err(|cause| PortError::new(&MALFORMED, action.as_str(), cause))?;
        let url = self.package_url(&package.id, &["package_content"], &action)?;
        let from = Origin::sol003(url, self.login.clone(), VERSION);
        self.fetcher.fetch(&from, max_bytes, to).await?;
        let verified = checksum::verify(to, stated).await;
        if verified.is_err() {
            let _ = tokio::fs::remove_file(to).await; // the caller gets the mismatch, not this
        }
        verified.map_err(|cause| PortError::new(&HASH, action, cause).on(package.id.as_str()))
    }

    /// Subscribes to onboarded and changed packages; returns the subscription's id. The NFVO logs in at
    /// `callback` as `user` with `password`.
    ///
    /// # Errors
    ///
    /// Those of [`PackageSource::find_by_vnfd`], and a callback that the NFVO rejects.
    pub async fn subscribe(
        &self,
        callback: &str,
        (user, password): (&str, &Secret),
    ) -> Result<String, PortError> {
        let action = "subscribe to the NFVO's VNF packages".to_owned();
        let body = json!({
            "filter": {"notificationTypes":
                ["VnfPackageOnboardingNotification", "VnfPackageChangeNotification"]},
            "callbackUri": callback,
            "authentication": {"authType": ["BASIC"],
                "paramsBasic": {"userName": user, "password": password.reveal()}},
        });
        let url = self.url("subscriptions", &action)?;
        let response = self.call(Method::POST, url, Some(&body), action).await?;
        let response = response.expect(&[StatusCode::CREATED, StatusCode::SEE_OTHER])?;
        if response.status == StatusCode::SEE_OTHER {
            let id = response
                .location
                .as_deref()
                .and_then(|location| location.rsplit('/').next());
            let id = id.filter(|id| !id.is_empty()).map(ToOwned::to_owned);
            return id.ok_or_else(|| {
                PortError::new(
                    &MALFORMED,
                    response.action.as_str(),
                    "303 without `Location`",
                )
            });
        }
        Ok(response.parsed::<SubscriptionRecord>()?.id)
    }

    /// Whether a subscription still exists at the NFVO.
    ///
    /// # Errors
    ///
    /// Those of [`PackageSource::find_by_vnfd`]; an unknown subscription is `false`.
    pub async fn is_subscribed(&self, id: &str) -> Result<bool, PortError> {
        let action = "read our subscription at the NFVO".to_owned();
        let mut url = self.url("subscriptions", &action)?;
        push(&mut url, &[id]);
        let response = self.call(Method::GET, url, None, action).await?;
        let response = response.expect(&[StatusCode::OK, StatusCode::NOT_FOUND])?;
        Ok(response.status == StatusCode::OK)
    }

    /// Deletes all subscriptions with this callback, which earlier processes created.
    ///
    /// # Errors
    ///
    /// Those of [`PackageSource::find_by_vnfd`], for each subscription.
    pub async fn unsubscribe(&self, callback: &str) -> Result<(), PortError> {
        let action = "find our subscriptions at the NFVO".to_owned();
        let mut url = self.url("subscriptions", &action)?;
        let filter = format!("(eq,callbackUri,{})", literal(callback));
        url.query_pairs_mut().append_pair("filter", &filter);
        let response = self.call(Method::GET, url, None, action).await?;
        let all: Vec<SubscriptionRecord> = response.expect(&[StatusCode::OK])?.parsed()?;
        for one in all.iter().filter(|one| one.callback_uri == callback) {
            let action = format!("delete the subscription `{}` at the NFVO", one.id);
            let mut url = self.url("subscriptions", &action)?;
            push(&mut url, &[&one.id]);
            let response = self.call(Method::DELETE, url, None, action).await?;
            response.expect(&[
                StatusCode::NO_CONTENT,
                StatusCode::OK,
                StatusCode::NOT_FOUND,
            ])?;
        }
        Ok(())
    }

    fn url(&self, resource: &str, action: &str) -> Result<Url, PortError> {
        let url = self
            .client
            .destinations()
            .check(&format!("{}/{resource}", self.root));
        url.map_err(|error| PortError::new(&CONFIGURATION, action, error.to_string()))
    }

    fn package_url(&self, id: &str, more: &[&str], action: &str) -> Result<Url, PortError> {
        let mut url = self.url("vnf_packages", action)?;
        push(&mut url, &[id]);
        push(&mut url, more);
        Ok(url)
    }

    async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        action: String,
    ) -> Result<FullResponse, PortError> {
        let to = self.client.allowed(url.as_str());
        let to = to.map_err(|error| PortError::new(&CONFIGURATION, &*action, error.to_string()))?;
        let request = || {
            let request = self.client.begin(method.clone(), &to);
            let request = request
                .header("version", VERSION)
                .header(ACCEPT, "application/json");
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let sent = self.logins.send(&self.client, &self.login, request).await?;
        let response =
            sent.map_err(|error| PortError::new(&UNREACHABLE, &*action, error_chain(&error)))?;
        let status = response.status();
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|location| location.to_str().ok());
        let location = location.map(ToOwned::to_owned);
        let bytes = read_body(response, self.client.policy())
            .await
            .map_err(|error| {
                let is_lost = matches!(error, ReadError::Lost(_));
                let code = if is_lost { &UNREACHABLE } else { &MALFORMED };
                PortError::new(code, &*action, error.to_string())
            })?;
        Ok(FullResponse {
            action,
            status,
            location,
            bytes: bytes.into(),
        })
    }
}

/// A response with its complete body, and the action that it belongs to.
struct FullResponse {
    action: String,
    status: StatusCode,
    location: Option<String>,
    bytes: Vec<u8>,
}

impl FullResponse {
    /// Fails unless the status is one of these.
    fn expect(&self, statuses: &[StatusCode]) -> Result<&Self, PortError> {
        let status = self.status;
        if statuses.contains(&status) {
            return Ok(self);
        }
        let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
        let code = match status {
            _ if later => &FAILING,
            _ if status.is_client_error() => &REFUSES,
            _ => &MALFORMED,
        };
        let body = problem_body(&self.bytes);
        let detail = ["detail", "title"]
            .iter()
            .find_map(|name| body[*name].as_str());
        let detail: String = detail
            .unwrap_or("no reason given")
            .chars()
            .take(MAX_QUOTED_CHARS)
            .collect();
        let cause = format!("the NFVO responded with {status}: {detail}");
        Err(PortError::new(code, self.action.as_str(), cause))
    }

    fn parsed<T: DeserializeOwned>(&self) -> Result<T, PortError> {
        read(&self.bytes).map_err(|path| {
            let cause = format!(
                "the body of the {} response is invalid at `{path}`",
                self.status
            );
            PortError::new(&MALFORMED, self.action.as_str(), cause)
        })
    }
}

/// Appends segments to a path, percent-encoded as needed.
fn push(url: &mut Url, segments: &[&str]) {
    if let Ok(mut path) = url.path_segments_mut() {
        path.extend(segments);
    }
}

/// A value in a filter (SOL013 5.2.2), quoted if it has special characters.
fn literal(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{OfferedPackage, literal};
    use serde_json::{Value, json};

    fn stated(checksum: &Value) -> Result<(String, String), String> {
        let package = json!({"id": "p", "onboardingState": "ONBOARDED", "operationalState": "ENABLED",
            "checksum": checksum});
        serde_json::from_value::<OfferedPackage>(package)
            .unwrap()
            .stated_checksum()
    }

    #[test]
    fn a_checksum_is_parsed_in_each_of_its_spellings() {
        let (hash, long) = ("Ab".repeat(32), "ab".repeat(64));
        let known = ("SHA256".to_owned(), hash.to_lowercase());
        for algorithm in ["SHA-256", "sha-256", "SHA256", "sha_256"] {
            let found = stated(&json!({"algorithm": algorithm, "hash": hash}));
            assert_eq!(found.unwrap(), known, "{algorithm}");
        }
        assert_eq!(stated(&json!(hash)).unwrap(), known);
        assert_eq!(
            stated(&json!({"algorithm": "SHA-512", "hash": long}))
                .unwrap()
                .0,
            "SHA512"
        );
        for wrong in [
            json!(null),
            json!("abcd"),
            json!(7),
            json!({"algorithm": "MD5", "hash": "ab".repeat(16)}),
            json!({"algorithm": "SHA-512", "hash": hash}),
            json!({"algorithm": "SHA-256", "hash": "z".repeat(64)}),
        ] {
            assert!(stated(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn special_characters_in_a_filter_value_are_quoted() {
        assert_eq!(
            literal("b1bb0ce7-ebca-4fa7-95ed-4840d7000000"),
            "b1bb0ce7-ebca-4fa7-95ed-4840d7000000"
        );
        assert_eq!(literal("a,b'c)"), "'a,b''c)'");
        assert_eq!(literal(""), "''");
    }
}
