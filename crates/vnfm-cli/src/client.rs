//! One HTTP call to the server, and its errors as people and scripts need them.

use crate::args::{Cli, Listing};
use crate::profile::{self, Profile, Profiles};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use vnfm::ports::PortError;
use vnfm_types::ProblemDetails;

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Something on this machine: a file, the command's own logic.
    #[error("{0}")]
    Local(String),
    /// The same, where it is known what to do next.
    #[error("{what}")]
    Hinted {
        /// What went wrong.
        what: String,
        /// What to do next.
        hint: String,
    },
    /// What lint found.
    #[error("{what}")]
    Found {
        /// How much it is.
        what: String,
        /// Whether an error is among it.
        errors: bool,
    },
    /// A hook of `plugin run` that failed.
    #[error("{what}")]
    Hook {
        /// Why.
        what: String,
        /// What to do next.
        hint: String,
        /// The exit code: whether the same hook may work later, or is wrong.
        code: u8,
    },
    /// An operation that did not end as COMPLETED.
    #[error("{what}")]
    Operation {
        /// How it ended and why.
        what: String,
        /// What to do next, where it is known.
        hint: Option<String>,
    },
    /// The server refused the request.
    #[error("{}", .0.detail)]
    Refused(Box<ProblemDetails>),
    /// The server failed.
    #[error("the server failed with status {}: {}", .0.status, .0.detail)]
    Server(Box<ProblemDetails>),
    /// The server cannot be reached.
    #[error("cannot reach {url}: {why}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What the network says.
        why: String,
    },
}

impl Failure {
    /// The exit code, as `--help` documents it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Local(_) | Self::Hinted { .. } | Self::Operation { .. } => 1,
            Self::Hook { code, .. } => *code,
            Self::Refused(_) => 3,
            Self::Found { errors, .. } => 5 + u8::from(*errors),
            Self::Server(_) | Self::Unreachable { .. } => 4,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(problem) | Self::Server(problem) => problem.next.clone(),
            Self::Unreachable { .. } => Some(
                "is vnfm-server running there? --server or VNFM_SERVER says where it is".into(),
            ),
            Self::Hinted { hint, .. } | Self::Hook { hint, .. } => Some(hint.clone()),
            Self::Operation { hint, .. } => hint.clone(),
            Self::Found { .. } => {
                Some("`vnfmctl lint --explain CODE` tells more about a code".into())
            }
            Self::Local(_) => None,
        }
    }
}

impl From<PortError> for Failure {
    /// What the plugin host says, which knows what to do next.
    fn from(error: PortError) -> Self {
        Self::Hinted {
            what: error.to_string(),
            hint: error.next().to_owned(),
        }
    }
}

/// What a command yields.
pub type Outcome<T> = Result<T, Failure>;

/// Shorthand for what went wrong on this machine.
pub fn local(what: impl std::fmt::Display) -> Failure {
    Failure::Local(what.to_string())
}

/// The version of the standard's interfaces that we speak; every request says so (SOL013 9.3.2).
const VERSION: &str = "2.3.0";

/// A server.
pub struct Client {
    http: reqwest::Client,
    server: String,
    login: Option<Login>,
}

/// Who we are for the server.
enum Login {
    Token(String),
    User { name: String, password: String },
}

impl Login {
    /// The token of the command line or `VNFM_TOKEN`, else the user of `VNFM_USER` with `VNFM_PASSWORD`, else the login of
    /// the profile.
    fn of(cli: &Cli, profile: &Profile) -> Outcome<Option<Self>> {
        if let Some(token) = &cli.token {
            return Ok(Some(Self::Token(token.clone())));
        }
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (set("VNFM_USER"), set("VNFM_PASSWORD")) {
            (None, None) => Ok(Self::kept(profile)),
            (Some(name), Some(password)) => Ok(Some(Self::User { name, password })),
            _ => Err(local("VNFM_USER and VNFM_PASSWORD go together")),
        }
    }

    fn kept(profile: &Profile) -> Option<Self> {
        let Profile {
            token,
            user,
            password,
            ..
        } = profile.clone();
        match (token, user) {
            (Some(token), _) => Some(Self::Token(token)),
            (None, Some(name)) => Some(Self::User {
                name,
                password: password.unwrap_or_default(),
            }),
            (None, None) => None,
        }
    }
}

/// The server where neither the command line nor a profile names one.
const HERE: &str = "http://127.0.0.1:9890";

/// The profile that counts. One that is only the current one is not for a server that was named otherwise: a login does
/// not go where it was not meant for.
fn profile(cli: &Cli) -> Outcome<Profile> {
    let all = match profile::file() {
        Some(_) if cli.server.is_some() && cli.profile.is_none() => return Ok(Profile::default()),
        Some(file) => Profiles::read(&file)?,
        None => Profiles::default(),
    };
    Ok(all.chosen(cli.profile.as_deref())?.unwrap_or_default())
}

impl Client {
    /// The server that the command line names, or a profile.
    ///
    /// # Errors
    ///
    /// Where the certificate authority or the profiles cannot be read, or only half of a login is there.
    pub fn new(cli: &Cli) -> Outcome<Self> {
        let profile = profile(cli)?;
        let version = (
            HeaderName::from_static("version"),
            HeaderValue::from_static(VERSION),
        );
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .default_headers(HeaderMap::from_iter([version]));
        if let Some(file) = cli.ca.as_ref().or(profile.ca.as_ref()) {
            let pem = std::fs::read(file)
                .map_err(|error| local(format!("cannot read `{}`: {error}", file.display())))?;
            let authority = reqwest::Certificate::from_pem(&pem).map_err(|error| {
                local(format!("`{}` is no certificate: {error}", file.display()))
            })?;
            builder = builder.add_root_certificate(authority);
        }
        let http = builder
            .build()
            .map_err(|error| local(format!("cannot make a client: {error}")))?;
        let named = cli.server.as_deref().or(Some(profile.server.as_str()));
        let server = named.filter(|server| !server.is_empty()).unwrap_or(HERE);
        let server = server.trim_end_matches('/').to_owned();
        Ok(Self {
            http,
            server,
            login: Login::of(cli, &profile)?,
        })
    }

    /// A request for `path`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.server));
        match &self.login {
            Some(Login::Token(token)) => request.bearer_auth(token),
            Some(Login::User { name, password }) => request.basic_auth(name, Some(password)),
            None => request,
        }
    }

    /// Sends a request; whatever is not 2xx is a failure.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn send(&self, request: RequestBuilder) -> Outcome<Response> {
        let response = request.send().await.map_err(|error| Failure::Unreachable {
            url: self.server.clone(),
            why: root_cause(&error),
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        let problem = serde_json::from_slice(&body).unwrap_or_else(|_| {
            ProblemDetails::new(status.as_u16(), String::from_utf8_lossy(&body).into_owned())
        });
        let problem = Box::new(problem);
        Err(if status.is_client_error() {
            Failure::Refused(problem)
        } else {
            Failure::Server(problem)
        })
    }

    /// The JSON at `path`.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        self.json(self.request(Method::GET, path)).await
    }

    /// The JSON that a request is answered with.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Outcome<T> {
        read(self.send(request).await?).await
    }

    /// All entries of a list as `wanted` says, page by page; where it names no attributes, those of `columns`.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn listing(
        &self,
        path: &str,
        wanted: &Listing,
        columns: &str,
    ) -> Outcome<Vec<Value>> {
        let fields = wanted.fields.as_deref().unwrap_or(columns);
        let mut parameters = Vec::new();
        if !fields.is_empty() {
            parameters.push(format!("fields={}", segment(fields)));
        }
        if let Some(filter) = &wanted.filter {
            parameters.push(format!("filter={}", segment(filter)));
        }
        let asked = if parameters.is_empty() { "" } else { "?" };
        self.list(&format!("{path}{asked}{}", parameters.join("&")))
            .await
    }

    /// All entries of a list, page by page.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn list(&self, path: &str) -> Outcome<Vec<Value>> {
        let mut all = Vec::new();
        let mut next = Some(path.to_owned());
        while let Some(path) = next {
            let response = self.send(self.request(Method::GET, &path)).await?;
            next = response
                .headers()
                .get(header::LINK)
                .and_then(|link| link.to_str().ok())
                .and_then(next_page);
            let page: Vec<Value> = response
                .json()
                .await
                .map_err(|error| local(format!("the list cannot be read: {error}")))?;
            all.extend(page);
        }
        Ok(all)
    }

    /// Accepts a task: the id of the operation occurrence that `Location` names.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn task(&self, request: RequestBuilder) -> Outcome<String> {
        let response = self.send(request).await?;
        let location = response
            .headers()
            .get(header::LOCATION)
            .and_then(|l| l.to_str().ok());
        let id = location
            .and_then(|location| location.rsplit('/').next())
            .map(ToOwned::to_owned);
        id.ok_or_else(|| local("the server accepted it without saying where the operation is"))
    }

    /// The same request, saying who asks and why.
    ///
    /// # Errors
    ///
    /// Where the reason is no single line.
    pub fn acting(&self, request: RequestBuilder, reason: Option<&str>) -> Outcome<RequestBuilder> {
        let who = ["USER", "LOGNAME"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok());
        let mut request = request;
        for (name, value) in [
            ("x-vnfm-operator", who.as_deref()),
            ("x-vnfm-reason", reason),
        ] {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| local(format!("`{value}` is no single line of text")))?;
            request = request.header(name, value);
        }
        Ok(request)
    }

    /// The one entry of a list whose `id` or one of `names` is `wanted`.
    ///
    /// # Errors
    ///
    /// Where there is none, or several with that name: their ids are named.
    pub async fn find(
        &self,
        path: &str,
        what: &str,
        names: &[&str],
        wanted: &str,
    ) -> Outcome<Value> {
        match self.get(&format!("{path}/{}", segment(wanted))).await {
            Err(Failure::Refused(problem)) if problem.status == StatusCode::NOT_FOUND.as_u16() => {}
            found => return found,
        }
        let mut found: Vec<Value> = Vec::new();
        for name in names {
            let filter = segment(&format!("(eq,{name},'{}')", wanted.replace('\'', "''")));
            let named = self
                .list(&format!("{path}?all_fields&filter={filter}"))
                .await?;
            let new = |entry: &Value| found.iter().all(|known| known["id"] != entry["id"]);
            let new: Vec<_> = named.into_iter().filter(new).collect();
            found.extend(new);
        }
        if found.len() > 1 {
            let ids: Vec<_> = found
                .iter()
                .filter_map(|entry| entry["id"].as_str())
                .collect();
            return Err(local(format!(
                "several {what}s are named `{wanted}`: {}",
                ids.join(", ")
            )));
        }
        found.pop().ok_or_else(|| {
            let mut problem = ProblemDetails::new(404, format!("there is no {what} `{wanted}`"));
            problem.next = Some(format!("`vnfmctl {what} list` shows those that there are"));
            Failure::Refused(Box::new(problem))
        })
    }
}

/// The JSON of an answer.
///
/// # Errors
///
/// As [`Failure`] says.
pub async fn read<T: DeserializeOwned>(response: Response) -> Outcome<T> {
    let url = response.url().to_string();
    let body = response
        .bytes()
        .await
        .map_err(|error| Failure::Unreachable {
            url: url.clone(),
            why: root_cause(&error),
        })?;
    serde_json::from_slice(&body).map_err(|error| {
        local(format!(
            "{url} answers with what I do not understand: {error}"
        ))
    })
}

/// `text` as one segment of a path.
pub fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The path of the next page out of a `Link` header.
fn next_page(link: &str) -> Option<String> {
    let uri = link.strip_prefix('<')?.split_once('>')?.0;
    let path = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let from = path.find('/')?;
    link.contains("rel=\"next\"")
        .then(|| path[from..].to_owned())
}

/// The connection that broke while an answer was read.
pub fn lost(client: &Client, error: &reqwest::Error) -> Failure {
    Failure::Unreachable {
        url: client.server.clone(),
        why: root_cause(error),
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
