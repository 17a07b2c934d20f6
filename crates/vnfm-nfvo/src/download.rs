//! Downloads large files, and resumes after an interruption: `Range` with `If-Range` (RFC 9110 13.1.5, 14), so that two
//! versions of a file are not mixed. Without a strong `ETag` it resumes only if the file is verified by a checksum later.
//!
//! | response | effect |
//! |---|---|
//! | 200 | the complete file: earlier bytes are discarded |
//! | 206 | the rest; it must start at the requested byte |
//! | 416 | no such range: restarted |
//! | 408, 425, 429, 5xx, timeout, connection lost | the rest is requested again after a pause |
//! | anything else | failed; redirects are not followed |
//!
//! [`Fetcher::resume`] also resumes in a new process if the file has a strong `ETag`, which is saved in a note
//! next to the partial file.
//!
//! The query of an address may be a credential, so it is never shown. The caller, who knows the hash, verifies the bytes.

mod partial_file;
mod response_head;

use crate::login::{Login, Logins};
use partial_file::{PartialFile, note_path};
use response_head::ResponseHead;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, PortError};
use vnfm_outbound::header::{ACCEPT, IF_RANGE, RANGE};
use vnfm_outbound::{
    Allowed, Client, Destinations, Method, Pieces, Policy, ReadError, RequestBuilder, Tls, Url,
    error_chain,
};

/// The URL must not or cannot be fetched.
const ADDRESS: Code = Code::new(
    "download.address",
    Refused,
    "the address of the file is invalid",
    "use an http or https URL without a login in it",
);
/// The server cannot be reached.
const UNREACHABLE: Code = Code::new(
    "download.unreachable",
    Unavailable,
    "the file server is unreachable",
    "check that it is running and reachable from this server, then try again",
);
/// A temporary error of the server.
const FAILING: Code = Code::new(
    "download.failing",
    Unavailable,
    "the file server is temporarily unable to process the request",
    "see its log, then try again",
);
/// The connection broke too often.
const CUT: Code = Code::new(
    "download.cut",
    Unavailable,
    "the download was interrupted too often",
    "check the network between this server and the file server, then try again",
);
/// The server rejected the request.
const REFUSES: Code = Code::new(
    "download.refused",
    Refused,
    "the file server rejected the request",
    "check the address and the login",
);
/// The response is not valid HTTP.
const MALFORMED: Code = Code::new(
    "download.malformed",
    Refused,
    "the file server returned an invalid HTTP response",
    "report it to the operator of that server",
);
/// The file exceeds the caller's limit.
const TOO_LARGE: Code = Code::new(
    "download.too-large",
    Refused,
    "the file is too large",
    "raise `limits.package_bytes` or the tenant's quota, or use a smaller file",
);
/// The disk is full or fails.
pub const NOT_WRITTEN: Code = Code::new(
    "download.not-written",
    Unavailable,
    "the downloaded file cannot be written",
    "check free space and permissions of the data folder",
);

/// All error codes of this file, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[
    &ADDRESS,
    &UNREACHABLE,
    &FAILING,
    &CUT,
    &REFUSES,
    &MALFORMED,
    &TOO_LARGE,
    &NOT_WRITTEN,
];

/// Consecutive requests without progress before a download fails.
const MAX_STALLED_ATTEMPTS: u32 = 5;
/// Requests for one file, with or without progress.
const MAX_ATTEMPTS: u32 = 100;
/// Pause before the next request; it doubles while there is no progress.
const BACKOFF: Duration = Duration::from_millis(250);

/// The address of a file, with the login for it.
#[derive(Debug, Clone)]
pub struct Origin {
    url: Url,
    login: Login,
    /// Value of the `Version` header, for a SOL003 resource.
    version: Option<&'static str>,
}

impl Origin {
    /// A file at `url`, fetched without a `Version` header.
    ///
    /// # Errors
    ///
    /// `Refused` if it is not an http or https URL, or contains a login.
    pub fn new(url: &str, login: Login) -> Result<Self, PortError> {
        let check = |url: &str, action: &str| {
            let url = Destinations::anywhere().check(url);
            url.map_err(|cause| PortError::new(&ADDRESS, action, cause.to_string()))
        };
        let url = check(url, "fetch a file")?;
        if let Login::Oauth2(credentials) = &login {
            check(&credentials.token_endpoint, "use the token endpoint")?;
        }
        Ok(Self {
            url,
            login,
            version: None,
        })
    }

    /// A resource of a SOL003 interface of this version.
    pub(crate) fn sol003(url: Url, login: Login, version: &'static str) -> Self {
        Self {
            url,
            login,
            version: Some(version),
        }
    }

    fn request(&self, client: &Client, to: &Allowed) -> RequestBuilder {
        let request = client.begin(Method::GET, to);
        match self.version {
            Some(version) => {
                let kinds = "application/zip, application/octet-stream;q=0.9";
                request.header("version", version).header(ACCEPT, kinds)
            }
            None => request,
        }
    }

    /// The SHA-256 of the address, which identifies it without revealing it.
    fn fingerprint(&self) -> String {
        hex::encode(Sha256::digest(self.url.as_str()))
    }

    fn action(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        format!("fetch `{url}`")
    }
}

/// A client that downloads files.
pub struct Fetcher {
    client: Client,
    logins: Arc<Logins>,
    clock: Arc<dyn Clock>,
}

impl Fetcher {
    /// A client that gives up on a server that sends nothing for `stall_timeout`.
    ///
    /// # Errors
    ///
    /// `Refused` if TLS cannot be set up.
    pub fn new(
        stall_timeout: Duration,
        tls: &Tls,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PortError> {
        let policy = Policy::DOWNLOAD.with_stall_timeout(stall_timeout);
        let client = Client::new(Destinations::anywhere(), policy, tls, None);
        let client = client
            .map_err(|cause| PortError::new(&ADDRESS, "create a client for downloads", cause))?;
        Ok(Self::with(
            client,
            Arc::new(Logins::new(clock.clone())),
            clock,
        ))
    }

    pub(crate) fn with(client: Client, logins: Arc<Logins>, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            logins,
            clock,
        }
    }

    /// Downloads a file of at most `max_bytes`, whose checksum the caller will verify, into `to`. Returns its size in bytes.
    ///
    /// # Errors
    ///
    /// Why the download failed; then there is no file at `to`.
    pub async fn fetch(&self, from: &Origin, max_bytes: u64, to: &Path) -> Result<u64, PortError> {
        let fetched = match PartialFile::new(to, max_bytes).await {
            Ok(part) => self.download(from, part).await,
            Err(error) => Err(error),
        };
        if fetched.is_err() {
            let _ = tokio::fs::remove_file(to).await; // it may not exist
        }
        fetched
    }

    /// Like [`Fetcher::fetch`], but for a file without a checksum, and resuming the download of an earlier process. If this
    /// process ends during the download, the partial file and its note remain.
    ///
    /// # Errors
    ///
    /// Those of [`Fetcher::fetch`]; then there is no file at `to`.
    pub async fn resume(&self, from: &Origin, max_bytes: u64, to: &Path) -> Result<u64, PortError> {
        let fetched = match PartialFile::resume(to, max_bytes, from).await {
            Ok(part) => self.download(from, part).await,
            Err(error) => Err(error),
        };
        let _ = tokio::fs::remove_file(note_path(to)).await; // without a strong tag there is none
        if fetched.is_err() {
            let _ = tokio::fs::remove_file(to).await;
        }
        fetched
    }

    async fn download(&self, from: &Origin, mut part: PartialFile) -> Result<u64, PortError> {
        if part.is_complete() {
            return part.finish().await;
        }
        let (mut attempts, mut stalled) = (0, 0);
        loop {
            let before = part.received();
            let error = match self.request_rest(from, &mut part).await {
                Ok(()) => return part.finish().await,
                Err(DownloadError::Permanent(error)) => return Err(error),
                Err(DownloadError::Temporary(error)) => error,
            };
            attempts += 1;
            stalled = if part.received() > before {
                0
            } else {
                stalled + 1
            };
            if stalled == MAX_STALLED_ATTEMPTS || attempts == MAX_ATTEMPTS {
                return Err(error.with_detail(&format!("{} bytes were received", part.received())));
            }
            tracing::info!(%error, bytes = part.received(), "download interrupted, resuming after a pause");
            self.clock.sleep(BACKOFF * 2_u32.pow(stalled)).await;
        }
    }

    /// One request for the missing bytes.
    async fn request_rest(
        &self,
        from: &Origin,
        part: &mut PartialFile,
    ) -> Result<(), DownloadError> {
        let (range, tag) = (part.range(), part.tag());
        let to = self.client.allowed(from.url.as_str());
        let to = to.map_err(|cause| PortError::new(&ADDRESS, from.action(), cause.to_string()))?;
        let request = || {
            let request = from.request(&self.client, &to);
            let request = match &range {
                Some(range) => request.header(RANGE, range),
                None => return request,
            };
            match &tag {
                Some(tag) => request.header(IF_RANGE, tag.clone()),
                None => request,
            }
        };
        let temporary = |code, cause: String| {
            DownloadError::Temporary(PortError::new(code, from.action(), cause))
        };
        let sent = self.logins.send(&self.client, &from.login, request).await?;
        let describe = |error: vnfm_outbound::Error| error_chain(&error.without_url());
        let response = sent.map_err(|error| temporary(&UNREACHABLE, describe(error)))?;
        part.begin(ResponseHead::new(&response), from).await?;
        let mut pieces = Pieces::new(response, part.max_bytes());
        loop {
            match pieces.next().await {
                Ok(Some(piece)) => part.append(&piece, from).await?,
                Ok(None) => break,
                Err(ReadError::Lost(error)) => return Err(temporary(&CUT, describe(error))),
                Err(_) => return Err(DownloadError::Permanent(part.too_large(from))),
            }
        }
        part.check_complete(from)
    }
}

/// Why a request did not complete a download.
enum DownloadError {
    /// The rest is requested again.
    Temporary(PortError),
    /// The download fails; another request would not help.
    Permanent(PortError),
}

impl From<PortError> for DownloadError {
    fn from(error: PortError) -> Self {
        if error.is_unavailable() {
            Self::Temporary(error)
        } else {
            Self::Permanent(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Login, Origin};

    #[test]
    fn credentials_in_a_url_are_not_shown() {
        let origin = Origin::new("https://a.example/x.csar?sig=hunter2#hunter2", Login::None);
        assert_eq!(origin.unwrap().action(), "fetch `https://a.example/x.csar`");
        for wrong in [
            "x.csar",
            "file:///etc/passwd",
            "https://u:hunter2@a.example/x",
        ] {
            let error = Origin::new(wrong, Login::None).unwrap_err();
            assert_eq!(error.name(), "download.address", "{wrong}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
