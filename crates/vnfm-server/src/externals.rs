//! Fetches what packages and requests refer to: external artifacts (SOL004 4.3.2) at onboarding, and archives (SOL005
//! 9.4.6.3.1). Only from addresses that the configuration allows.
//!
//! ```yaml
//! packages:
//!   external: ['https://artifacts.example.com/images/']   # allowed prefixes of URIs; none if absent
//! ```
//! Packages come from third parties, and the server may reach hosts that they cannot: so it requests only allowed
//! addresses and follows no redirects. Content goes to the disk, is hashed as it arrives, and is stored with the
//! package only if it has the hash in the manifest.

use crate::problem::{HandlerResult, Problem};
use anyhow::{Context as _, bail};
use axum::http::StatusCode;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use vnfm_core::Refusal;
use vnfm_core::ports::PortError;
use vnfm_descriptor::External;
use vnfm_nfvo::{ClientCredentials, Fetcher, Login, Origin, Tls};
use vnfm_outbound::{
    Client, Destinations, Error, Method, Pieces, Policy, ReadError, Url, error_chain,
};
use vnfm_types::{UploadAuthType, UploadVnfPackageFromUriRequest};

/// Timeout for the next bytes from an artifact's server.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Fetches external artifacts and archives.
pub struct Externals {
    allowed: Vec<Url>,
    client: Client,
    archives: Fetcher,
}

impl Externals {
    /// Allows URIs below these addresses.
    ///
    /// # Errors
    ///
    /// If an entry is not an http or https address, or has a password or a query.
    pub fn new(allowed: &[String]) -> anyhow::Result<Self> {
        let read = |text: &String| {
            let url = Url::parse(text)
                .with_context(|| format!("packages.external: `{text}` is not an address"))?;
            let plain = url.query().is_none() && url.fragment().is_none() && has_no_user(&url);
            if !["http", "https"].contains(&url.scheme()) || !plain {
                bail!("packages.external: `{text}` must have the form `https://host/path/`");
            }
            Ok(url)
        };
        // Every request goes below an address that the operator has configured.
        let policy = Policy::DOWNLOAD.with_stall_timeout(STALL_TIMEOUT);
        let client = Client::new(Destinations::anywhere(), policy, &Tls::default(), None);
        Ok(Self {
            allowed: allowed.iter().map(read).collect::<anyhow::Result<_>>()?,
            client: client
                .map_err(|error| anyhow::anyhow!("cannot create an HTTP client: {error}"))?,
            archives: Fetcher::new(STALL_TIMEOUT, &Tls::default(), Arc::new(vnfm::SystemClock))?,
        })
    }

    /// The archive that a request refers to, with the login.
    ///
    /// # Errors
    ///
    /// 400 for inconsistent credentials; 422 if the address or the token endpoint is not allowed.
    pub(crate) fn origin(&self, request: UploadVnfPackageFromUriRequest) -> HandlerResult<Origin> {
        let address = request.address_information.clone();
        let login = login(request)?;
        let refused = |member: &str, reason: String| {
            let detail = format!("`{member}`: {reason}");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "package.address", detail)
                .hint("allow it in `packages.external` in the configuration")
        };
        self.allowed(&address)
            .map_err(|reason| refused("addressInformation", reason))?;
        if let Login::Oauth2(credentials) = &login {
            let endpoint = self.allowed(&credentials.token_endpoint);
            endpoint.map_err(|reason| refused("tokenEndpoint", reason))?;
        }
        Origin::new(&address, login).map_err(|error| Refusal::unprocessable(error).into())
    }

    /// Fetches an archive of at most `max_bytes` into `to`. An interrupted download resumes, even after
    /// a restart of the process.
    ///
    /// # Errors
    ///
    /// If the fetch fails; there is no file then.
    pub(crate) async fn archive(
        &self,
        from: &Origin,
        max_bytes: u64,
        to: &Path,
    ) -> Result<u64, PortError> {
        self.archives.resume(from, max_bytes, to).await
    }

    /// Fetches an artifact of at most `max_bytes` into `to`, using the temporary file `part`; returns its size.
    ///
    /// # Errors
    ///
    /// If the fetch fails; there is no file then.
    pub(crate) async fn fetch(
        &self,
        external: &External,
        max_bytes: u64,
        (part, to): (&Path, &Path),
    ) -> Result<u64, String> {
        let fetched = match self.receive(external, max_bytes, part).await {
            Ok(size) => {
                let moved = tokio::fs::rename(part, to).await;
                moved
                    .map(|()| size)
                    .map_err(|error| write_error(to, &error))
            }
            Err(reason) => Err(reason),
        };
        if fetched.is_err() {
            let _ = tokio::fs::remove_file(part).await; // it may not exist
        }
        fetched.map_err(|reason| format!("the external artifact `{}`: {reason}", external.uri))
    }

    async fn receive(
        &self,
        external: &External,
        max_bytes: u64,
        part: &Path,
    ) -> Result<u64, String> {
        let url = self.allowed(&external.uri)?;
        let request = self.client.request(Method::GET, url.as_str());
        let request = request.map_err(|error| error.to_string())?;
        let response = request
            .send()
            .await
            .map_err(|error| connect_error(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(format!(
                "its server responds with {status}; redirects are not followed"
            ));
        }
        if !status.is_success() {
            return Err(format!("its server responds with {status}"));
        }
        let too_large = || format!("it is larger than the limit of {max_bytes} bytes");
        if response
            .content_length()
            .is_some_and(|length| length > max_bytes)
        {
            return Err(too_large());
        }
        let mut file = tokio::fs::File::create(part)
            .await
            .map_err(|error| write_error(part, &error))?;
        let (mut arriving, mut size) = (external.hasher(), 0_u64);
        let read_error = |error: ReadError| match error {
            ReadError::Lost(error) => {
                format!("the download is incomplete: {}", error_chain(&error))
            }
            _ => too_large(),
        };
        let mut pieces = Pieces::new(response, max_bytes);
        while let Some(piece) = pieces.next().await.map_err(read_error)? {
            size += piece.len() as u64;
            arriving.update(&piece);
            file.write_all(&piece)
                .await
                .map_err(|error| write_error(part, &error))?;
        }
        // `flush` reports pending write errors; `sync_all` does not.
        file.flush()
            .await
            .map_err(|error| write_error(part, &error))?;
        file.sync_all()
            .await
            .map_err(|error| write_error(part, &error))?;
        arriving.finish().map_err(|actual| {
            let (algorithm, expected) = (external.algorithm, &external.hash);
            format!("its {algorithm} is {actual}, but the manifest has {expected}")
        })?;
        Ok(size)
    }

    /// Parses an address and checks that it is allowed.
    fn allowed(&self, uri: &str) -> Result<Url, String> {
        let url = Url::parse(uri).map_err(|error| format!("not an address: {error}"))?;
        if self.allowed.iter().any(|allowed| is_below(&url, allowed)) && has_no_user(&url) {
            return Ok(url);
        }
        if self.allowed.is_empty() {
            return Err("`packages.external` in the configuration allows no address".into());
        }
        let all: Vec<&str> = self.allowed.iter().map(Url::as_str).collect();
        Err(format!(
            "it is not below any address in `packages.external`: {}",
            all.join(", ")
        ))
    }
}

/// The login of a request: by `authType`, or by its parameters if that is absent.
fn login(request: UploadVnfPackageFromUriRequest) -> HandlerResult<Login> {
    let of_v2 = request.user_name.zip(request.password);
    let basic = request
        .params_basic
        .map(|basic| (basic.user_name, basic.password))
        .or(of_v2);
    let basic = basic.map(|(user, password)| Login::Basic { user, password });
    let oauth2 = request.params_oauth2_client_credentials.map(|oauth2| {
        Login::Oauth2(ClientCredentials {
            token_endpoint: oauth2.token_endpoint,
            client_id: oauth2.client_id,
            client_password: oauth2.client_password,
        })
    });
    let missing = |what: &str| Problem::schema_mismatch(format!("`authType` needs `{what}`"));
    match (request.auth_type, basic, oauth2) {
        (Some(UploadAuthType::Basic), basic, None) => basic.ok_or_else(|| missing("paramsBasic")),
        (Some(UploadAuthType::Oauth2ClientCredentials), None, oauth2) => {
            oauth2.ok_or_else(|| missing("paramsOauth2ClientCredentials"))
        }
        (None, basic, None) => Ok(basic.unwrap_or_default()),
        (None, None, Some(oauth2)) => Ok(oauth2),
        _ => Err(Problem::schema_mismatch(
            "give credentials for only one login method",
        )),
    }
}

/// Whether a URL equals `base` or is below it: the same server, and the path continues after a `/`.
fn is_below(url: &Url, base: &Url) -> bool {
    let server = |url: &Url| {
        (
            url.scheme().to_owned(),
            url.host_str().map(str::to_owned),
            url.port_or_known_default(),
        )
    };
    let folder = base.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(folder);
    server(url) == server(base) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn has_no_user(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none()
}

fn connect_error(error: &Error) -> String {
    format!("cannot connect to its server: {}", error_chain(error))
}

fn write_error(file: &Path, error: &std::io::Error) -> String {
    format!("cannot write `{}`: {error}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn externals() -> Externals {
        Externals::new(&[
            "https://a.example/images/".into(),
            "http://b.example:8080".into(),
        ])
        .unwrap()
    }

    #[test]
    fn only_addresses_below_an_allowed_one_are_requested() {
        let externals = externals();
        for uri in [
            "https://a.example/images/x.img",
            "https://A.example:443/images/deep/x.img?version=1",
            "http://b.example:8080/anything",
        ] {
            assert!(externals.allowed(uri).is_ok(), "{uri}");
        }
        for uri in [
            "http://a.example/images/x.img",
            "https://a.example/imagesx",
            "https://a.example/images/../secret",
            "https://a.example/images/%2e%2e/secret",
            "https://a.example:8443/images/x.img",
            "https://user@a.example/images/x.img",
            "https://a.example.evil/images/x.img",
            "https://a.example@evil/images/x.img",
            "http://b.example/anything",
            "http://169.254.169.254/latest/meta-data/",
            "file:///etc/passwd",
            "nonsense",
        ] {
            assert!(externals.allowed(uri).is_err(), "{uri}");
        }
        let nothing = Externals::new(&[])
            .unwrap()
            .allowed("https://a.example/x")
            .unwrap_err();
        assert!(nothing.contains("packages.external"), "{nothing}");
    }

    #[test]
    fn allowed_entries_must_be_addresses() {
        for text in [
            "a.example",
            "ftp://a.example/",
            "https://u:p@a.example/",
            "https://a/?x=1",
        ] {
            assert!(Externals::new(&[text.into()]).is_err(), "{text}");
        }
    }
}
