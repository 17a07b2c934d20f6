//! A large file is fetched, and after a cut the rest of it: `Range` with `If-Range` (RFC 9110 13.1.5, 14), so that two
//! versions of a file are not mixed. Without a strong `ETag` the rest is asked for only where a checksum tells afterwards.
//!
//! | answer | means |
//! |---|---|
//! | 200 | the whole of it: what came before is thrown away |
//! | 206 | the rest; it has to begin where we are |
//! | 416 | there is no such rest: begun anew |
//! | 408, 425, 429, 5xx, silence, a cut | asked again after a pause, for what is missing |
//! | anything else | given up; no redirect is followed |
//!
//! [`Fetcher::go_on`] goes on after the end of a process, too, where the file's version was told by a strong `ETag`: that
//! is noted beside what has come of it.
//!
//! A query in an address may be what lets somebody in, so it is never shown. Whether the bytes are the right ones is for
//! whoever knows their hash.

mod said;

use crate::code;
use crate::login::{Login, Logins};
use crate::packages::hexadecimal;
use said::Said;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Clock, Code, PortError};
use vnfm_outbound::header::{ACCEPT, HeaderValue, IF_RANGE, RANGE};
use vnfm_outbound::{
    Allowed, Client, Destinations, Method, Pieces, Policy, ReadError, RequestBuilder, StatusCode,
    Tls, Url, words,
};

/// The address is none.
const ADDRESS: Code = code(
    "download.address",
    Refused,
    "a file cannot be fetched from an address like this",
    "use an http or https URL without a login in it",
);
/// Nobody answers.
const UNREACHABLE: Code = code(
    "download.unreachable",
    Unavailable,
    "the server that has a file does not answer",
    "check that it runs and can be reached from here, then try again",
);
/// It answers that it cannot now.
const FAILING: Code = code(
    "download.failing",
    Unavailable,
    "the server that has a file answers that it cannot now",
    "look into its log, then try again",
);
/// It was cut too often.
const CUT: Code = code(
    "download.cut",
    Unavailable,
    "a file does not arrive whole, however often the rest of it is asked for",
    "look at the network between here and the server that has it, then try again",
);
/// It refuses.
const REFUSES: Code = code(
    "download.refused",
    Refused,
    "the server that has a file does not give it to us",
    "check the address and the login",
);
/// Its answer makes no sense.
const MALFORMED: Code = code(
    "download.malformed",
    Refused,
    "the server that has a file answers a range otherwise than HTTP says",
    "report it to whoever runs that server",
);
/// It is too large.
const TOO_LARGE: Code = code(
    "download.too-large",
    Refused,
    "a file is larger than is taken",
    "raise `limits.package_bytes` or the tenant's quota, or fetch less",
);
/// It cannot be kept.
pub const NOT_WRITTEN: Code = code(
    "download.not-written",
    Unavailable,
    "a file that arrives cannot be written",
    "look at the disk of the data folder",
);

/// All of them, for `docs/errors.md`.
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

/// Requests in a row that bring nothing, before it is given up.
const IN_VAIN: u32 = 5;
/// Requests for one file, whatever they bring.
const REQUESTS: u32 = 100;
/// The pause before the second request; it doubles while nothing comes.
const PAUSE: Duration = Duration::from_millis(250);

/// Where a file is, and who we are there.
#[derive(Debug, Clone)]
pub struct Origin {
    url: Url,
    login: Login,
    /// For an interface of the standard: its version.
    version: Option<&'static str>,
}

impl Origin {
    /// A file at `url`.
    ///
    /// # Errors
    ///
    /// `Refused` where that is no http or https URL, or has a login in it.
    pub fn new(url: &str, login: Login) -> Result<Self, PortError> {
        let check = |url: &str, doing: &str| {
            let url = Destinations::anywhere().check(url);
            url.map_err(|why| PortError::new(&ADDRESS, doing, why.to_string()))
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

    /// A resource of an interface of the standard.
    pub(crate) fn of_interface(url: Url, login: Login, version: &'static str) -> Self {
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

    /// Tells this address from others, and gives nothing of it away.
    fn mark(&self) -> String {
        hexadecimal(&Sha256::digest(self.url.as_str()))
    }

    fn doing(&self) -> String {
        let mut shown = self.url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        format!("fetch `{shown}`")
    }
}

/// Fetches files.
pub struct Fetcher {
    client: Client,
    logins: Arc<Logins>,
    clock: Arc<dyn Clock>,
}

impl Fetcher {
    /// For servers that send something within each `silent`.
    ///
    /// # Errors
    ///
    /// `Refused` where TLS cannot be set up.
    pub fn new(silent: Duration, tls: &Tls, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        let policy = Policy::DOWNLOAD.stalled(silent);
        let client = Client::new(Destinations::anywhere(), policy, tls, None);
        let client =
            client.map_err(|why| PortError::new(&ADDRESS, "make a client for downloads", why))?;
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

    /// Fetches a file of at most `most` bytes, whose checksum is known, into `to`; gives its size in bytes.
    ///
    /// # Errors
    ///
    /// Why it cannot be had; then there is no file at `to`.
    pub async fn fetch(&self, from: &Origin, most: u64, to: &Path) -> Result<u64, PortError> {
        let fetched = match Part::new(to, most).await {
            Ok(part) => self.fetched(from, part).await,
            Err(error) => Err(error),
        };
        if fetched.is_err() {
            let _ = tokio::fs::remove_file(to).await; // it may never have been made
        }
        fetched
    }

    /// The same of a file without a checksum, from where a process before this one was: what has come, and a note beside
    /// it, stay if this one ends in the middle.
    ///
    /// # Errors
    ///
    /// As [`Fetcher::fetch`].
    pub async fn go_on(&self, from: &Origin, most: u64, to: &Path) -> Result<u64, PortError> {
        let fetched = match Part::resumed(to, most, from).await {
            Ok(part) => self.fetched(from, part).await,
            Err(error) => Err(error),
        };
        let _ = tokio::fs::remove_file(note_of(to)).await; // without a strong tag there is none
        if fetched.is_err() {
            let _ = tokio::fs::remove_file(to).await;
        }
        fetched
    }

    async fn fetched(&self, from: &Origin, mut part: Part) -> Result<u64, PortError> {
        if part.whole == Some(part.got) {
            return part.kept().await;
        }
        let (mut requests, mut in_vain) = (0, 0);
        loop {
            let before = part.got;
            let error = match self.more(from, &mut part).await {
                Ok(()) => return part.kept().await,
                Err(Trouble::Never(error)) => return Err(error),
                Err(Trouble::Again(error)) => error,
            };
            requests += 1;
            in_vain = if part.got > before { 0 } else { in_vain + 1 };
            if in_vain == IN_VAIN || requests == REQUESTS {
                return Err(error.also(&format!("{} bytes had come", part.got)));
            }
            tracing::info!(%error, bytes = part.got, "a download goes on after a pause");
            self.clock.sleep(PAUSE * 2_u32.pow(in_vain)).await;
        }
    }

    /// One request for what is missing.
    async fn more(&self, from: &Origin, part: &mut Part) -> Result<(), Trouble> {
        let (range, tag) = (part.range(), part.tag.clone());
        let to = self.client.allowed(from.url.as_str());
        let to = to.map_err(|why| PortError::new(&ADDRESS, from.doing(), why.to_string()))?;
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
        let again = |code, why: String| Trouble::Again(PortError::new(code, from.doing(), why));
        let sent = self.logins.send(&self.client, &from.login, request).await?;
        let unreached = |error: vnfm_outbound::Error| words(&error.without_url());
        let response = sent.map_err(|error| again(&UNREACHABLE, unreached(error)))?;
        part.begin(Said::of(&response), from).await?;
        let mut pieces = Pieces::new(response, part.most);
        loop {
            match pieces.next().await {
                Ok(Some(piece)) => part.take(&piece, from).await?,
                Ok(None) => break,
                Err(ReadError::Lost(error)) => return Err(again(&CUT, unreached(error))),
                Err(_) => return Err(Trouble::Never(part.too_large(from))),
            }
        }
        part.is_whole(from)
    }
}

/// What becomes of a download after a request that did not bring the end.
enum Trouble {
    /// It goes on.
    Again(PortError),
    /// It is given up.
    Never(PortError),
}

impl From<PortError> for Trouble {
    fn from(error: PortError) -> Self {
        if error.is_unavailable() {
            Self::Again(error)
        } else {
            Self::Never(error)
        }
    }
}

/// What is noted of a file that is on its way.
#[derive(Serialize, Deserialize)]
struct Note {
    /// The SHA-256 of its address, which may let somebody in.
    from: String,
    tag: String,
    whole: Option<u64>,
}

/// As much of a file as has come.
struct Part {
    path: PathBuf,
    file: File,
    most: u64,
    got: u64,
    /// How much it is, where that was said.
    whole: Option<u64>,
    /// Which version of it; a strong one.
    tag: Option<HeaderValue>,
    /// Whether a checksum will tell if it is the right one; else its version is noted for a process after this one.
    has_checksum: bool,
}

impl Part {
    async fn new(path: &Path, most: u64) -> Result<Self, PortError> {
        let file = File::create(path)
            .await
            .map_err(|error| unwritten(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            most,
            got: 0,
            whole: None,
            tag: None,
            has_checksum: true,
        })
    }

    /// What a process before this one has left of it, where it noted from where and which version that is; else nothing.
    async fn resumed(path: &Path, most: u64, from: &Origin) -> Result<Self, PortError> {
        let note = tokio::fs::read(note_of(path)).await.ok();
        let note: Option<Note> = note.and_then(|note| serde_json::from_slice(&note).ok());
        let note = note.filter(|note| note.from == from.mark());
        let tag = note
            .as_ref()
            .and_then(|note| HeaderValue::from_str(&note.tag).ok());
        let failed = |error: std::io::Error| unwritten(path, &error);
        let mut options = File::options();
        options.write(true).create(true).truncate(tag.is_none());
        let mut file = options.open(path).await.map_err(failed)?;
        let got = file.seek(SeekFrom::End(0)).await.map_err(failed)?;
        let whole = note.and_then(|note| note.whole).filter(|_| tag.is_some());
        Ok(Self {
            path: path.to_owned(),
            file,
            most,
            got,
            whole,
            tag,
            has_checksum: false,
        })
    }

    /// Notes which version comes, before any of it is written.
    async fn note(&self, from: &Origin) -> std::io::Result<()> {
        let note = note_of(&self.path);
        match self.tag.as_ref().and_then(|tag| tag.to_str().ok()) {
            Some(tag) => {
                let (from, tag) = (from.mark(), tag.to_owned());
                let text = serde_json::to_vec(&Note {
                    from,
                    tag,
                    whole: self.whole,
                })?;
                tokio::fs::write(note, text).await
            }
            None => match tokio::fs::remove_file(note).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// What is missing; `None` for all of it, and for what might be the rest of another version.
    fn range(&self) -> Option<String> {
        let is_told = self.tag.is_some() || self.has_checksum;
        (self.got > 0 && is_told).then(|| format!("bytes={}-", self.got))
    }

    async fn begin(&mut self, said: Said, from: &Origin) -> Result<(), Trouble> {
        let status = said.status;
        let told = |code, what: String| PortError::new(code, from.doing(), what);
        let answers = format!("it answers {status}");
        match status {
            StatusCode::OK => self.begin_anew(said, from).await,
            StatusCode::PARTIAL_CONTENT if self.got > 0 => self.go_on(said, from).await,
            StatusCode::RANGE_NOT_SATISFIABLE if self.got > 0 => {
                self.forget().await?;
                Err(Trouble::Again(told(&CUT, answers)))
            }
            _ if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) => {
                Err(Trouble::Again(told(&FAILING, answers)))
            }
            _ if status.is_redirection() => {
                let what = format!("{answers}; redirects are not followed");
                Err(Trouble::Never(told(&REFUSES, what)))
            }
            _ if status.is_client_error() => Err(Trouble::Never(told(&REFUSES, answers))),
            _ => Err(Trouble::Never(told(&MALFORMED, answers))),
        }
    }

    /// All of it comes.
    async fn begin_anew(&mut self, said: Said, from: &Origin) -> Result<(), Trouble> {
        self.forget().await?;
        (self.whole, self.tag) = (said.length, said.tag);
        if !self.has_checksum {
            let noted = self.note(from).await;
            noted.map_err(|error| Trouble::Never(unwritten(&self.path, &error)))?;
        }
        if self.whole.is_some_and(|whole| whole > self.most) {
            return Err(Trouble::Never(self.too_large(from)));
        }
        Ok(())
    }

    /// The rest of it comes, if that is what it says.
    async fn go_on(&mut self, said: Said, from: &Origin) -> Result<(), Trouble> {
        let Some((first, whole)) = said.range else {
            let what = "206 without a `Content-Range` of bytes";
            return Err(Trouble::Never(PortError::new(
                &MALFORMED,
                from.doing(),
                what,
            )));
        };
        if self.whole.zip(whole).is_some_and(|(ours, its)| ours != its) {
            self.forget().await?;
            let what = "it is another file than before";
            return Err(Trouble::Again(PortError::new(&CUT, from.doing(), what)));
        }
        if first != self.got {
            let what = format!(
                "asked for what follows byte {}, it sends from {first}",
                self.got
            );
            return Err(Trouble::Never(PortError::new(
                &MALFORMED,
                from.doing(),
                what,
            )));
        }
        self.whole = self.whole.or(whole);
        Ok(())
    }

    async fn take(&mut self, piece: &[u8], from: &Origin) -> Result<(), Trouble> {
        self.got += piece.len() as u64;
        if self.got > self.most {
            return Err(Trouble::Never(self.too_large(from)));
        }
        let written = self.file.write_all(piece).await;
        written.map_err(|error| Trouble::Never(unwritten(&self.path, &error)))
    }

    fn is_whole(&self, from: &Origin) -> Result<(), Trouble> {
        match self.whole {
            Some(whole) if self.got < whole => {
                let what = format!("{} of {whole} bytes came", self.got);
                Err(Trouble::Again(PortError::new(&CUT, from.doing(), what)))
            }
            Some(whole) if self.got > whole => {
                let what = format!("it said {whole} bytes, and {} came", self.got);
                Err(Trouble::Never(PortError::new(
                    &MALFORMED,
                    from.doing(),
                    what,
                )))
            }
            _ => Ok(()),
        }
    }

    /// Throws away what came.
    async fn forget(&mut self) -> Result<(), Trouble> {
        (self.got, self.whole, self.tag) = (0, None, None);
        let emptied = match self.file.set_len(0).await {
            Ok(()) => self.file.rewind().await,
            Err(error) => Err(error),
        };
        emptied
            .map(drop)
            .map_err(|error| Trouble::Never(unwritten(&self.path, &error)))
    }

    /// It is on the disk; its size.
    async fn kept(mut self) -> Result<u64, PortError> {
        // What is on its way to the file fails here; `sync_all` would keep that to itself.
        let synced = match self.file.flush().await {
            Ok(()) => self.file.sync_all().await,
            Err(error) => Err(error),
        };
        synced
            .map_err(|error| unwritten(&self.path, &error))
            .map(|()| self.got)
    }

    fn too_large(&self, from: &Origin) -> PortError {
        let what = format!("it has more than the {} bytes that are taken", self.most);
        PortError::new(&TOO_LARGE, from.doing(), what)
    }
}

/// Where it is noted which version of a file is on its way.
fn note_of(file: &Path) -> PathBuf {
    let mut note = file.as_os_str().to_owned();
    note.push(".note");
    note.into()
}

fn unwritten(file: &Path, error: &std::io::Error) -> PortError {
    PortError::new(
        &NOT_WRITTEN,
        format!("write `{}`", file.display()),
        error.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::{Login, Origin};

    #[test]
    fn what_may_let_somebody_in_is_not_shown() {
        let origin = Origin::new("https://a.example/x.csar?sig=hunter2#hunter2", Login::None);
        assert_eq!(origin.unwrap().doing(), "fetch `https://a.example/x.csar`");
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
