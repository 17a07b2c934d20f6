//! HTTP calls to the server, and their errors with hints and exit codes.

use crate::args::{Connection, ListOptions};
pub use crate::failure::{Failure, Outcome, local};
use crate::profile::{self, Profile, Profiles};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use vnfm_types::ProblemDetails;

/// Version of the SOL003 interfaces, sent with every request (SOL013 9.3.2).
const VERSION: &str = "2.3.0";

/// A connection to one server, with its login.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    server: String,
    login: Option<Login>,
    plans: bool,
}

/// Credentials for the server; sent with every request.
#[derive(Clone)]
enum Login {
    Token(String),
    User { name: String, password: String },
}

impl Login {
    /// The token of the command line or `VNFM_TOKEN`, else the user of `VNFM_USER` with `VNFM_PASSWORD`, else
    /// the login of the profile.
    fn resolve(connection: &Connection, profile: &Profile) -> Outcome<Option<Self>> {
        if let Some(token) = &connection.token {
            return Ok(Some(Self::Token(token.clone())));
        }
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (set("VNFM_USER"), set("VNFM_PASSWORD")) {
            (None, None) => Ok(Self::from_profile(profile)),
            (Some(name), Some(password)) => Ok(Some(Self::User { name, password })),
            _ => Err(local("VNFM_USER and VNFM_PASSWORD must be set together")),
        }
    }

    fn from_profile(profile: &Profile) -> Option<Self> {
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

/// Used if neither the command line nor a profile names a server.
const DEFAULT_SERVER: &str = "http://127.0.0.1:9890";

/// The profile to use. If `--server` names a server, the current profile is ignored: its login must not
/// be sent to another server.
fn selected_profile(connection: &Connection) -> Outcome<Profile> {
    let all = match profile::file() {
        Some(_) if connection.server.is_some() && connection.profile.is_none() => {
            return Ok(Profile::default());
        }
        Some(file) => Profiles::read(&file)?,
        None => Profiles::default(),
    };
    Ok(all
        .select(connection.profile.as_deref())?
        .unwrap_or_default())
}

impl Client {
    /// A client for the server that the command line or a profile names.
    ///
    /// # Errors
    ///
    /// If the CA certificate or the profiles cannot be read, or the login is incomplete.
    pub fn new(connection: &Connection) -> Outcome<Self> {
        let profile = selected_profile(connection)?;
        let version = (
            HeaderName::from_static("version"),
            HeaderValue::from_static(VERSION),
        );
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .default_headers(HeaderMap::from_iter([version]));
        if let Some(file) = connection.ca.as_ref().or(profile.ca.as_ref()) {
            let pem = crate::input::file(file)
                .map_err(|error| local(format!("cannot read `{}`: {error}", file.display())))?;
            let authority = reqwest::Certificate::from_pem(&pem).map_err(|error| {
                local(format!(
                    "`{}` is not a PEM certificate: {error}",
                    file.display()
                ))
            })?;
            builder = builder.add_root_certificate(authority);
        }
        let http = builder
            .build()
            .map_err(|error| local(format!("cannot create an HTTP client: {error}")))?;
        let named = connection
            .server
            .as_deref()
            .or(Some(profile.server.as_str()));
        let server = named
            .filter(|server| !server.is_empty())
            .unwrap_or(DEFAULT_SERVER);
        let server = server.trim_end_matches('/').to_owned();
        Ok(Self {
            http,
            server,
            login: Login::resolve(connection, &profile)?,
            plans: false,
        })
    }

    /// A client that plans operations instead of beginning them.
    #[must_use]
    pub fn planning(&self) -> Self {
        Self {
            plans: true,
            ..self.clone()
        }
    }

    /// Whether operations are planned instead of begun.
    pub fn plans(&self) -> bool {
        self.plans
    }

    /// A request for `path` on the server, with the login.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.server));
        match &self.login {
            Some(Login::Token(token)) => request.bearer_auth(token),
            Some(Login::User { name, password }) => request.basic_auth(name, Some(password)),
            None => request,
        }
    }

    /// Sends a request; any status other than 2xx is a failure.
    ///
    /// # Errors
    ///
    /// `Refused` with a 4xx status, `Server` with any other failure, `Unreachable` without a response.
    pub async fn send(&self, request: RequestBuilder) -> Outcome<Response> {
        let response = request.send().await.map_err(|error| Failure::Unreachable {
            url: self.server.clone(),
            cause: root_cause(&error),
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

    /// Reads the JSON resource at `path`.
    ///
    /// # Errors
    ///
    /// Those of [`Client::send`]; `Local` if the body is not the expected JSON.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        self.json(self.request(Method::GET, path)).await
    }

    /// The JSON body of the response to a request.
    ///
    /// # Errors
    ///
    /// Those of [`Client::send`]; `Local` if the body is not the expected JSON.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Outcome<T> {
        read(self.send(request).await?).await
    }

    /// All entries of a list that match `options`, page by page; if they name no attributes, with those of `columns`.
    ///
    /// # Errors
    ///
    /// Those of [`Client::list`], for every page.
    pub async fn listing(
        &self,
        path: &str,
        options: &ListOptions,
        columns: &str,
    ) -> Outcome<Vec<Value>> {
        let fields = options.fields.as_deref().unwrap_or(columns);
        let mut parameters = Vec::new();
        if !fields.is_empty() {
            parameters.push(format!("fields={}", segment(fields)));
        }
        if let Some(filter) = &options.filter {
            parameters.push(format!("filter={}", segment(filter)));
        }
        let separator = if parameters.is_empty() { "" } else { "?" };
        self.list(&format!("{path}{separator}{}", parameters.join("&")))
            .await
    }

    /// All entries of a list, page by page.
    ///
    /// # Errors
    ///
    /// Those of [`Client::send`]; `Local` if a page is not a JSON array.
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
                .map_err(|error| local(format!("the server's list is not valid JSON: {error}")))?;
            all.extend(page);
        }
        Ok(all)
    }

    /// Starts a task and returns the id of its operation occurrence, taken from `Location`.
    ///
    /// # Errors
    ///
    /// Those of [`Client::send`]; `Local` if the response names no operation.
    pub async fn task(&self, request: RequestBuilder) -> Outcome<String> {
        let response = self.send(request).await?;
        let location = response
            .headers()
            .get(header::LOCATION)
            .and_then(|l| l.to_str().ok());
        let id = location
            .and_then(|location| location.rsplit('/').next())
            .map(ToOwned::to_owned);
        id.ok_or_else(|| {
            local(
                "the server accepted the request but returned no operation (`Location` is missing)",
            )
        })
    }

    /// Adds the operator's name and reason to a request, for the audit log.
    ///
    /// # Errors
    ///
    /// If the reason is not a single line.
    pub fn with_audit(
        &self,
        request: RequestBuilder,
        reason: Option<&str>,
    ) -> Outcome<RequestBuilder> {
        let named = ["USER", "LOGNAME"].into_iter();
        let who = named
            .filter_map(|name| std::env::var(name).ok())
            .find(|name| !name.is_empty())
            .or_else(login_name);
        let mut request = request;
        for (name, value) in [
            ("x-vnfm-operator", who.as_deref()),
            ("x-vnfm-reason", reason),
        ] {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| local(format!("`{value}` is not a single line of text")))?;
            request = request.header(name, value);
        }
        Ok(request)
    }

    /// The entry of a list whose `id`, or one of whose attributes `names`, is `wanted`.
    ///
    /// # Errors
    ///
    /// If there is none, or several have that name (the message lists their ids).
    pub async fn find(
        &self,
        path: &str,
        noun: &str,
        names: &[&str],
        id_or_name: &str,
    ) -> Outcome<Value> {
        match self.get(&format!("{path}/{}", segment(id_or_name))).await {
            Err(Failure::Refused(problem)) if problem.status == StatusCode::NOT_FOUND.as_u16() => {}
            found => return found,
        }
        let mut found: Vec<Value> = Vec::new();
        for name in names {
            let filter = segment(&format!("(eq,{name},'{}')", id_or_name.replace('\'', "''")));
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
                "several {noun}s are named `{id_or_name}`, use an ID: {}",
                ids.join(", ")
            )));
        }
        found.pop().ok_or_else(|| {
            let mut problem =
                ProblemDetails::new(404, format!("no {noun} has the name or ID `{id_or_name}`"));
            problem.next = Some(format!("`vnfmctl {noun} list` shows what exists"));
            Failure::Refused(Box::new(problem))
        })
    }
}

/// The name of this process's user in `/etc/passwd`.
fn login_name() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    user_with_id(&std::fs::read_to_string("/etc/passwd").ok()?, &uid)
}

fn user_with_id(passwd: &str, uid: &str) -> Option<String> {
    let line = passwd
        .lines()
        .find(|line| line.split(':').nth(2) == Some(uid))?;
    line.split(':').next().map(ToOwned::to_owned)
}

/// Parses the JSON body of a response.
///
/// # Errors
///
/// `Local` if the body is not the expected JSON, `Unreachable` if the connection breaks.
pub async fn read<T: DeserializeOwned>(response: Response) -> Outcome<T> {
    let url = response.url().to_string();
    let body = response
        .bytes()
        .await
        .map_err(|error| Failure::Unreachable {
            url: url.clone(),
            cause: root_cause(&error),
        })?;
    serde_json::from_slice(&body)
        .map_err(|error| local(format!("the response of {url} is not valid: {error}")))
}

/// Percent-encodes `text` as one segment of a path.
pub fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The path of the next page, from a `Link` header.
fn next_page(link: &str) -> Option<String> {
    let uri = link.strip_prefix('<')?.split_once('>')?.0;
    let path = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let from = path.find('/')?;
    link.contains("rel=\"next\"")
        .then(|| path[from..].to_owned())
}

/// The failure for a connection that broke while a response was read.
pub fn lost(client: &Client, error: &reqwest::Error) -> Failure {
    Failure::Unreachable {
        url: client.server.clone(),
        cause: root_cause(error),
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::user_with_id;

    #[test]
    fn the_login_name_belongs_to_the_user_id() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:0::/home/ann:/bin/sh\n";
        assert_eq!(user_with_id(passwd, "1000").as_deref(), Some("ann"));
        assert_eq!(user_with_id(passwd, "1"), None);
    }
}
