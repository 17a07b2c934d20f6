//! VNF packages that the NFVO has (SOL003 10, `vnfpkgm/v2`): looked up, fetched, compared with their checksum; and the
//! subscription to what becomes of them.
//!
//! | request | what for |
//! |---|---|
//! | `GET /vnf_packages?filter=(eq,vnfdId,…)` | which package has a VNFD |
//! | `GET /vnf_packages/{vnfPkgId}` | what it says of one that we have |
//! | `GET /vnf_packages/{vnfPkgId}/package_content` | the archive, by ranges after a cut ([`crate::download`]) |
//! | `POST`, `GET`, `DELETE /subscriptions` | to be told of what is on-boarded, disabled, deleted |
//!
//! Where a package goes here, and when it is fetched, is the server's.

use crate::code;
use crate::download::{Fetcher, Origin};
use crate::grants::{CONFIGURATION, FAILING, NfvoAddress, UNREACHABLE, read};
use crate::login::{Login, Logins};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::digest::DynDigest;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, PortError};
use vnfm_outbound::header::{ACCEPT, LOCATION};
use vnfm_outbound::{
    Client, Destinations, Method, Policy, ReadError, StatusCode, Url, read as read_whole, shown,
    words,
};
use vnfm_types::{PackageOnboardingState, PackageOperationalState, Secret};

/// The version of the API (SOL003 V3.7.1).
const VERSION: &str = "2.4.0";
/// How much of the NFVO's words is repeated, in characters.
const LONGEST_WORDS: usize = 500;

/// It does not take the request.
const REFUSES: Code = code(
    "nfvo.packages-refused",
    Refused,
    "the NFVO does not take a request about its VNF packages",
    "check address and login in `nfvo` of the configuration; its reason is in the message",
);
/// Its answer is not what the standard says.
const MALFORMED: Code = code(
    "nfvo.package-malformed",
    Refused,
    "what the NFVO says of a VNF package is not what SOL003 says",
    "report it to whoever runs the NFVO",
);
/// It has none with that VNFD.
pub const ABSENT: Code = code(
    "nfvo.no-package",
    Refused,
    "neither this server nor the NFVO has a VNF package with that VNFD",
    "on-board it at the NFVO, or here: `vnfmctl package onboard PATH`",
);
/// It has one that is not on-boarded yet.
const NOT_YET: Code = code(
    "nfvo.package-not-onboarded",
    Unavailable,
    "the NFVO has the VNF package and has not on-boarded it yet",
    "try again once it is ONBOARDED there",
);
/// It has disabled it.
const DISABLED: Code = code(
    "nfvo.package-disabled",
    Refused,
    "the VNF package is DISABLED at the NFVO",
    "have it enabled there",
);
/// What it sent is something else.
const HASH: Code = code(
    "nfvo.package-checksum",
    Refused,
    "what the NFVO sent has not the checksum that the NFVO states; it was thrown away",
    "compare the package at the NFVO with what its vendor delivered",
);

/// All of them, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[&REFUSES, &MALFORMED, &ABSENT, &NOT_YET, &DISABLED, &HASH];

/// A VNF package as the NFVO says it is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedPackage {
    /// Its id there.
    pub id: String,
    /// Its VNFD, once it is on-boarded.
    #[serde(default)]
    pub vnfd_id: Option<String>,
    /// How far on-boarding is.
    pub onboarding_state: PackageOnboardingState,
    /// Whether it may be used.
    pub operational_state: PackageOperationalState,
    /// An object in SOL005, a text in the files of SOL003.
    #[serde(default)]
    checksum: Value,
}

impl OfferedPackage {
    /// The SHA-256 of its archive in lower-case hexadecimal, where that is what it states.
    pub fn sha256(&self) -> Option<String> {
        let (algorithm, hash) = self.stated().ok()?;
        (algorithm == "SHA256").then_some(hash)
    }

    /// Refuses what may not be used, or not yet.
    ///
    /// # Errors
    ///
    /// `Unavailable` where it is not on-boarded yet, `Refused` where it is DISABLED.
    pub fn usable(&self) -> Result<(), PortError> {
        let doing = format!("use the VNF package `{}` of the NFVO", self.id);
        if self.onboarding_state != PackageOnboardingState::Onboarded {
            let state = serde_json::to_value(self.onboarding_state).unwrap_or_default();
            let what = format!(
                "its onboardingState is {}",
                state.as_str().unwrap_or_default()
            );
            return Err(PortError::new(&NOT_YET, doing, what).on(self.id.as_str()));
        }
        if self.operational_state == PackageOperationalState::Disabled {
            let what = "its operationalState is DISABLED";
            return Err(PortError::new(&DISABLED, doing, what).on(self.id.as_str()));
        }
        Ok(())
    }

    /// The algorithm of its checksum, such as `SHA256`, and the hash in lower case.
    fn stated(&self) -> Result<(String, String), String> {
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
        let named: String = algorithm
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let named = named.to_ascii_uppercase();
        if !is_hex || by_length.is_empty() || !(named.is_empty() || named == by_length) {
            return Err("`checksum` is no SHA-224, SHA-256, SHA-384 or SHA-512".to_owned());
        }
        Ok((by_length.to_owned(), hash))
    }
}

/// A subscription of ours, as the NFVO lists it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    callback_uri: String,
}

/// The NFVO as a source of packages.
pub struct PackageSource {
    client: Client,
    fetcher: Fetcher,
    logins: Arc<Logins>,
    login: Login,
    /// With `/vnfpkgm/v2`.
    root: String,
}

impl PackageSource {
    /// The NFVO at `address`; nothing is called yet.
    ///
    /// # Errors
    ///
    /// `Refused` where the address is no URL, or certificates cannot be read.
    pub fn new(address: NfvoAddress, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        let wrong = |why: String| {
            let doing = format!("use the NFVO at `{}`", shown(&address.endpoint));
            PortError::new(&CONFIGURATION, doing, why)
        };
        let root = format!("{}/vnfpkgm/v2", address.endpoint.trim_end_matches('/'));
        Destinations::anywhere()
            .check(&root)
            .map_err(|why| wrong(why.to_string()))?;
        let client = |policy: Policy| {
            let (tls, proxy) = (&address.tls, address.proxy.as_deref());
            Client::new(Destinations::anywhere(), policy, tls, proxy).map_err(wrong)
        };
        let downloads = client(Policy::DOWNLOAD.stalled(address.time))?;
        let logins = Arc::new(Logins::new(clock.clone()));
        Ok(Self {
            client: client(Policy::NFVO.taking(address.time))?,
            fetcher: Fetcher::with(downloads, logins.clone(), clock),
            logins,
            login: address.login,
            root,
        })
    }

    /// The package with a VNFD; one that is on-boarded where there are several.
    ///
    /// # Errors
    ///
    /// `nfvo.no-package` where there is none; that the NFVO does not answer, refuses, or says something else than the
    /// standard.
    pub async fn of_vnfd(&self, vnfd_id: &str) -> Result<OfferedPackage, PortError> {
        let doing = format!("look for a VNF package with vnfdId `{vnfd_id}` at the NFVO");
        let mut url = self.url("vnf_packages", &doing)?;
        let wanted = format!("(eq,vnfdId,{})", literal(vnfd_id));
        url.query_pairs_mut().append_pair("filter", &wanted);
        let answer = self.call(Method::GET, url, None, doing).await?;
        let mut all: Vec<OfferedPackage> = answer.of(&[StatusCode::OK])?.parsed()?;
        // A filter that is not looked at must not lead to another VNF.
        all.retain(|one| one.vnfd_id.as_deref() == Some(vnfd_id));
        all.sort_by_key(|one| one.usable().is_err());
        all.into_iter().next().ok_or_else(|| {
            PortError::new(&ABSENT, answer.doing.as_str(), "there is none").on(vnfd_id)
        })
    }

    /// What the NFVO says of one package; `None` where it has it no more.
    ///
    /// # Errors
    ///
    /// As [`PackageSource::of_vnfd`].
    pub async fn package(&self, id: &str) -> Result<Option<OfferedPackage>, PortError> {
        let doing = format!("look at the VNF package `{id}` of the NFVO");
        let url = self.of_package(id, &[], &doing)?;
        let answer = self.call(Method::GET, url, None, doing).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        answer.of(&[StatusCode::OK])?.parsed().map(Some)
    }

    /// Fetches an archive of at most `most` bytes into `to`: it has the checksum that the NFVO states.
    ///
    /// # Errors
    ///
    /// Why it cannot be had, or that it is something else; then there is no file at `to`.
    pub async fn fetch(
        &self,
        package: &OfferedPackage,
        most: u64,
        to: &Path,
    ) -> Result<(), PortError> {
        let doing = format!("fetch the VNF package `{}` from the NFVO", package.id);
        let stated = package.stated();
        let stated = stated.map_err(|why| PortError::new(&MALFORMED, doing.as_str(), why))?;
        let url = self.of_package(&package.id, &["package_content"], &doing)?;
        let from = Origin::of_interface(url, self.login.clone(), VERSION);
        self.fetcher.fetch(&from, most, to).await?;
        let compared = compared(to, stated).await;
        if compared.is_err() {
            let _ = tokio::fs::remove_file(to).await; // what it is nobody knows
        }
        compared.map_err(|why| PortError::new(&HASH, doing, why).on(package.id.as_str()))
    }

    /// Subscribes to what is on-boarded, and to what becomes of it; gives the subscription's id. The NFVO logs in at
    /// `callback` as `user` with `password`.
    ///
    /// # Errors
    ///
    /// As [`PackageSource::of_vnfd`].
    pub async fn subscribe(
        &self,
        callback: &str,
        (user, password): (&str, &Secret),
    ) -> Result<String, PortError> {
        let doing = "subscribe to the NFVO's VNF packages".to_owned();
        let body = json!({
            "filter": {"notificationTypes":
                ["VnfPackageOnboardingNotification", "VnfPackageChangeNotification"]},
            "callbackUri": callback,
            "authentication": {"authType": ["BASIC"],
                "paramsBasic": {"userName": user, "password": password.reveal()}},
        });
        let url = self.url("subscriptions", &doing)?;
        let answer = self.call(Method::POST, url, Some(&body), doing).await?;
        let answer = answer.of(&[StatusCode::CREATED, StatusCode::SEE_OTHER])?;
        if answer.status == StatusCode::SEE_OTHER {
            let id = answer
                .place
                .as_deref()
                .and_then(|place| place.rsplit('/').next());
            let id = id.filter(|id| !id.is_empty()).map(ToOwned::to_owned);
            return id.ok_or_else(|| {
                PortError::new(&MALFORMED, answer.doing.as_str(), "303 without `Location`")
            });
        }
        Ok(answer.parsed::<Listed>()?.id)
    }

    /// Whether the NFVO still knows a subscription.
    ///
    /// # Errors
    ///
    /// As [`PackageSource::of_vnfd`].
    pub async fn is_subscribed(&self, id: &str) -> Result<bool, PortError> {
        let doing = "look at our subscription at the NFVO".to_owned();
        let mut url = self.url("subscriptions", &doing)?;
        push(&mut url, &[id]);
        let answer = self.call(Method::GET, url, None, doing).await?;
        let known = answer.of(&[StatusCode::OK, StatusCode::NOT_FOUND])?.status == StatusCode::OK;
        Ok(known)
    }

    /// Ends every subscription with this callback: those of processes before us.
    ///
    /// # Errors
    ///
    /// As [`PackageSource::of_vnfd`].
    pub async fn unsubscribe(&self, callback: &str) -> Result<(), PortError> {
        let doing = "look for our subscriptions at the NFVO".to_owned();
        let mut url = self.url("subscriptions", &doing)?;
        let wanted = format!("(eq,callbackUri,{})", literal(callback));
        url.query_pairs_mut().append_pair("filter", &wanted);
        let answer = self.call(Method::GET, url, None, doing).await?;
        let all: Vec<Listed> = answer.of(&[StatusCode::OK])?.parsed()?;
        for one in all.iter().filter(|one| one.callback_uri == callback) {
            let doing = format!("end the subscription `{}` at the NFVO", one.id);
            let mut url = self.url("subscriptions", &doing)?;
            push(&mut url, &[&one.id]);
            let answer = self.call(Method::DELETE, url, None, doing).await?;
            answer.of(&[
                StatusCode::NO_CONTENT,
                StatusCode::OK,
                StatusCode::NOT_FOUND,
            ])?;
        }
        Ok(())
    }

    fn url(&self, resource: &str, doing: &str) -> Result<Url, PortError> {
        let url = self
            .client
            .destinations()
            .check(&format!("{}/{resource}", self.root));
        url.map_err(|why| PortError::new(&CONFIGURATION, doing, why.to_string()))
    }

    fn of_package(&self, id: &str, more: &[&str], doing: &str) -> Result<Url, PortError> {
        let mut url = self.url("vnf_packages", doing)?;
        push(&mut url, &[id]);
        push(&mut url, more);
        Ok(url)
    }

    async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        doing: String,
    ) -> Result<Answer, PortError> {
        let to = self.client.allowed(url.as_str());
        let to = to.map_err(|why| PortError::new(&CONFIGURATION, &*doing, why.to_string()))?;
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
            sent.map_err(|error| PortError::new(&UNREACHABLE, &*doing, words(&error)))?;
        let status = response.status();
        let place = response
            .headers()
            .get(LOCATION)
            .and_then(|place| place.to_str().ok());
        let place = place.map(ToOwned::to_owned);
        let bytes = read_whole(response, self.client.policy())
            .await
            .map_err(|error| {
                let cut = matches!(error, ReadError::Lost(_));
                let code = if cut { &UNREACHABLE } else { &MALFORMED };
                PortError::new(code, &*doing, error.to_string())
            })?;
        Ok(Answer {
            doing,
            status,
            place,
            bytes: bytes.into(),
        })
    }
}

/// An answer, read to its end.
struct Answer {
    doing: String,
    status: StatusCode,
    place: Option<String>,
    bytes: Vec<u8>,
}

impl Answer {
    /// Itself, where its status is one of these.
    fn of(&self, statuses: &[StatusCode]) -> Result<&Self, PortError> {
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
        let body: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let says = ["detail", "title"]
            .iter()
            .find_map(|name| body[*name].as_str());
        let says: String = says
            .unwrap_or("it gives no reason")
            .chars()
            .take(LONGEST_WORDS)
            .collect();
        let what = format!("the NFVO answers {status}: {says}");
        Err(PortError::new(code, self.doing.as_str(), what))
    }

    fn parsed<T: DeserializeOwned>(&self) -> Result<T, PortError> {
        read(&self.bytes).map_err(|place| {
            let what = format!("the answer {} is not of its shape: `{place}`", self.status);
            PortError::new(&MALFORMED, self.doing.as_str(), what)
        })
    }
}

/// Adds segments to a path, whatever is in them.
fn push(url: &mut Url, segments: &[&str]) {
    if let Ok(mut path) = url.path_segments_mut() {
        path.extend(segments);
    }
}

/// A value in a filter (SOL013 5.2.2): in quotes where it has more than letters and digits.
fn literal(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "''"))
}

/// Whether a file has this hash; says both where not.
async fn compared(file: &Path, (algorithm, stated): (String, String)) -> Result<(), String> {
    let path = file.to_owned();
    let hashing = tokio::task::spawn_blocking(move || hash(&path, &algorithm));
    let real = hashing
        .await
        .map_err(|error| format!("it cannot be hashed: {error}"))?;
    let real = real.map_err(|error| format!("it cannot be read again: {error}"))?;
    if real == stated {
        Ok(())
    } else {
        Err(format!("its hash is {real}, stated is {stated}"))
    }
}

fn hash(file: &Path, algorithm: &str) -> std::io::Result<String> {
    let mut hasher: Box<dyn DynDigest> = match algorithm {
        "SHA224" => Box::new(Sha224::default()),
        "SHA384" => Box::new(Sha384::default()),
        "SHA512" => Box::new(Sha512::default()),
        _ => Box::new(Sha256::default()),
    };
    let (mut file, mut buffer) = (File::open(file)?, vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hexadecimal(&hasher.finalize()))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
    }
    text
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
            .stated()
    }

    #[test]
    fn a_checksum_is_read_in_each_of_its_spellings() {
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
    fn a_value_stays_a_value_in_a_filter() {
        assert_eq!(
            literal("b1bb0ce7-ebca-4fa7-95ed-4840d7000000"),
            "b1bb0ce7-ebca-4fa7-95ed-4840d7000000"
        );
        assert_eq!(literal("a,b'c)"), "'a,b''c)'");
        assert_eq!(literal(""), "''");
    }
}
