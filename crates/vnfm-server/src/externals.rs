//! What is fetched because a package or a request names it: external artifacts of packages (SOL004 4.3.2) when a package is
//! onboarded, and archives (SOL005 9.4.6.3.1). Only from where the configuration allows it.
//!
//! ```yaml
//! packages:
//!   external: ['https://artifacts.example.com/images/']   # what stands before a URI; none where absent
//! ```
//! A package is written by strangers, and the server stands where they do not: so no address is asked that nobody
//! allowed, and no redirect is followed. What arrives goes to the disk, is hashed on its way, and is kept beside the
//! package only if it has the hash that the manifest states.

use crate::problem::{Answer, Problem};
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
    Client, Destinations, Error, Method, Pieces, Policy, ReadError, Url, error_chain as told,
};
use vnfm_types::{UploadAuthType, UploadVnfPackageFromUriRequest};

/// The longest that an artifact's server may take to send the next bytes.
const SILENT: Duration = Duration::from_mins(1);

/// Fetches external artifacts and archives.
pub struct Externals {
    allowed: Vec<Url>,
    client: Client,
    archives: Fetcher,
}

impl Externals {
    /// Fetches what is below one of these addresses.
    ///
    /// # Errors
    ///
    /// Where one of them is no address of http or https, or has a password or a query.
    pub fn new(allowed: &[String]) -> anyhow::Result<Self> {
        let read = |text: &String| {
            let url = Url::parse(text)
                .with_context(|| format!("packages.external: `{text}` is no address"))?;
            let plain = url.query().is_none() && url.fragment().is_none() && has_no_user(&url);
            if !["http", "https"].contains(&url.scheme()) || !plain {
                bail!("packages.external: `{text}` is not `https://host/path/`");
            }
            Ok(url)
        };
        // Whatever is called is below an address that the operator wrote.
        let policy = Policy::DOWNLOAD.with_stall_timeout(SILENT);
        let client = Client::new(Destinations::anywhere(), policy, &Tls::default(), None);
        Ok(Self {
            allowed: allowed.iter().map(read).collect::<anyhow::Result<_>>()?,
            client: client.map_err(|why| anyhow::anyhow!("cannot make a client: {why}"))?,
            archives: Fetcher::new(SILENT, &Tls::default(), Arc::new(vnfm::SystemClock))?,
        })
    }

    /// Where a request says that an archive is.
    ///
    /// # Errors
    ///
    /// 400 where its login makes no sense, 422 where the address or the token endpoint is not allowed.
    pub(crate) fn origin(&self, request: UploadVnfPackageFromUriRequest) -> Answer<Origin> {
        let address = request.address_information.clone();
        let login = login(request)?;
        let refused = |what: &str, why: String| {
            let what = format!("`{what}`: {why}");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "package.address", what)
                .next("have it allowed in `packages.external`")
        };
        self.allowed(&address)
            .map_err(|why| refused("addressInformation", why))?;
        if let Login::Oauth2(credentials) = &login {
            let endpoint = self.allowed(&credentials.token_endpoint);
            endpoint.map_err(|why| refused("tokenEndpoint", why))?;
        }
        Origin::new(&address, login).map_err(|error| Refusal::unprocessable(error).into())
    }

    /// Fetches an archive of at most `most` bytes into `to`, after a cut the rest of it, also after one of this process.
    ///
    /// # Errors
    ///
    /// Why it cannot be had. Then there is no file.
    pub(crate) async fn archive(
        &self,
        from: &Origin,
        most: u64,
        to: &Path,
    ) -> Result<u64, PortError> {
        self.archives.resume(from, most, to).await
    }

    /// Fetches an artifact of at most `most` bytes into `to`, by way of `part`; gives its size.
    ///
    /// # Errors
    ///
    /// Why it cannot be had. Then there is no file.
    pub async fn fetch(
        &self,
        external: &External,
        most: u64,
        (part, to): (&Path, &Path),
    ) -> Result<u64, String> {
        let fetched = match self.receive(external, most, part).await {
            Ok(size) => {
                let moved = tokio::fs::rename(part, to).await;
                moved.map(|()| size).map_err(|error| unwritten(to, &error))
            }
            Err(why) => Err(why),
        };
        if fetched.is_err() {
            let _ = tokio::fs::remove_file(part).await; // it may never have been made
        }
        fetched.map_err(|why| format!("the external artifact `{}`: {why}", external.uri))
    }

    async fn receive(&self, external: &External, most: u64, part: &Path) -> Result<u64, String> {
        let url = self.allowed(&external.uri)?;
        let request = self.client.request(Method::GET, url.as_str());
        let request = request.map_err(|why| why.to_string())?;
        let answer = request.send().await.map_err(|error| unreached(&error))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(format!(
                "its server answers {status}; redirects are not followed"
            ));
        }
        if !status.is_success() {
            return Err(format!("its server answers {status}"));
        }
        let too_large = || format!("it has more than the {most} bytes that a package may have");
        if answer.content_length().is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let mut file = tokio::fs::File::create(part)
            .await
            .map_err(|error| unwritten(part, &error))?;
        let (mut arriving, mut size) = (external.arriving(), 0_u64);
        let cut = |error: ReadError| match error {
            ReadError::Lost(error) => format!("it did not arrive whole: {}", told(&error)),
            _ => too_large(),
        };
        let mut pieces = Pieces::new(answer, most);
        while let Some(piece) = pieces.next().await.map_err(cut)? {
            size += piece.len() as u64;
            arriving.take(&piece);
            file.write_all(&piece)
                .await
                .map_err(|error| unwritten(part, &error))?;
        }
        // What is on its way to the file fails here; `sync_all` would keep that to itself.
        file.flush()
            .await
            .map_err(|error| unwritten(part, &error))?;
        file.sync_all()
            .await
            .map_err(|error| unwritten(part, &error))?;
        arriving.end().map_err(|real| {
            let (algorithm, stated) = (external.algorithm, &external.hash);
            format!("its {algorithm} is {real}, and the manifest states {stated}")
        })?;
        Ok(size)
    }

    /// The address, if it may be asked.
    fn allowed(&self, uri: &str) -> Result<Url, String> {
        let url = Url::parse(uri).map_err(|error| format!("this is no address: {error}"))?;
        if self.allowed.iter().any(|allowed| is_below(&url, allowed)) && has_no_user(&url) {
            return Ok(url);
        }
        if self.allowed.is_empty() {
            return Err(
                "nothing is fetched: `packages.external` of the configuration allows no address"
                    .into(),
            );
        }
        let all: Vec<&str> = self.allowed.iter().map(Url::as_str).collect();
        Err(format!(
            "it is below none of the addresses that `packages.external` allows: {}",
            all.join(", ")
        ))
    }
}

/// How a request says to log in: as `authType` says, or as its parameters do where that is absent.
fn login(request: UploadVnfPackageFromUriRequest) -> Answer<Login> {
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
    let missing = |what: &str| Problem::unfit(format!("`authType` needs `{what}`"));
    match (request.auth_type, basic, oauth2) {
        (Some(UploadAuthType::Basic), basic, None) => basic.ok_or_else(|| missing("paramsBasic")),
        (Some(UploadAuthType::Oauth2ClientCredentials), None, oauth2) => {
            oauth2.ok_or_else(|| missing("paramsOauth2ClientCredentials"))
        }
        (None, basic, None) => Ok(basic.unwrap_or_default()),
        (None, None, Some(oauth2)) => Ok(oauth2),
        _ => Err(Problem::unfit(
            "two ways to log in contradict each other: give one",
        )),
    }
}

/// Whether an address is another one, or below it: the same server, and the path goes on behind a `/`.
fn is_below(url: &Url, above: &Url) -> bool {
    let server = |url: &Url| {
        (
            url.scheme().to_owned(),
            url.host_str().map(str::to_owned),
            url.port_or_known_default(),
        )
    };
    let folder = above.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(folder);
    server(url) == server(above)
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn has_no_user(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none()
}

fn unreached(error: &Error) -> String {
    format!("its server cannot be reached: {}", told(error))
}

fn unwritten(file: &Path, error: &std::io::Error) -> String {
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
    fn only_what_is_below_an_allowed_address_is_asked() {
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
    fn what_is_allowed_is_an_address() {
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
