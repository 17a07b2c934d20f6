//! Opens one connection, by TCP or through a jump host; checks the host key and logs in.

use crate::errors::{
    self, ADDRESS, BAD_KEY, HOST_KEY_CHANGED, LOGIN_REFUSED, UNREACHABLE, login_error,
};
use crate::host_keys::{HostKeys, fingerprint, parse, to_openssh};
use russh::client::{self, AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::{
    HashAlg, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate, decode_secret_key,
};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use vnfm_core::ports::{PinnedTarget, PortError, SshTarget};
use vnfm_outbound::{Destinations, is_forbidden};

/// Timeout for connecting and logging in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The keepalive interval on a silent connection; three missing replies end it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Rounds of prompts that keyboard-interactive may have.
const MAX_PROMPT_ROUNDS: usize = 5;

/// A connection whose login succeeded.
pub(crate) struct Connection {
    /// The handle of the SSH library.
    pub(crate) handle: Handle<HostKeyChecker>,
    /// How many commands run on it.
    users: AtomicUsize,
    /// When the last one ended.
    last_used: Mutex<Instant>,
    /// The jump host's connection, kept open as long as this one.
    _jump: Option<Arc<Connection>>,
}

impl Connection {
    /// Counts as in use until the guard is dropped.
    pub(crate) fn acquire(self: &Arc<Self>) -> InUse {
        self.users.fetch_add(1, Ordering::AcqRel);
        InUse(self.clone())
    }

    /// Whether it has been unused for at least `time`.
    pub(crate) fn idle_for(&self, time: Duration) -> bool {
        let used = *self
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.users.load(Ordering::Acquire) == 0 && used.elapsed() >= time
    }
}

/// Marks a connection as in use.
pub(crate) struct InUse(Arc<Connection>);

impl InUse {
    /// The connection that is logged in.
    pub(crate) fn connection(&self) -> &Connection {
        &self.0
    }

    /// A shared reference, for a connection that goes through this one.
    pub(crate) fn shared(&self) -> Arc<Connection> {
        self.0.clone()
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *self
            .0
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Connects to `target`, through `jump` if given, and logs in.
pub(crate) async fn connect(
    target: &PinnedTarget,
    jump: Option<Arc<Connection>>,
    trust: (&dyn HostKeys, &Destinations),
) -> Result<Connection, PortError> {
    match timeout(CONNECT_TIMEOUT, connect_and_log_in(target, jump, trust)).await {
        Ok(result) => result,
        Err(_) => Err(errors::deadline_error(
            &format!("log in to `{}`", target.host.address),
            CONNECT_TIMEOUT,
        )),
    }
}

async fn connect_and_log_in(
    target: &PinnedTarget,
    jump: Option<Arc<Connection>>,
    trust: (&dyn HostKeys, &Destinations),
) -> Result<Connection, PortError> {
    let (host_keys, to) = trust;
    let host = &target.host;
    let pinned = host_keys.known(target).await?;
    let trusted = pinned.as_deref().map(parse).unwrap_or_default();
    let presented = Arc::new(Mutex::new(None));
    let checker = HostKeyChecker {
        trusted: trusted.clone(),
        presented: presented.clone(),
    };
    let config = Arc::new(config(&trusted));
    let connected = match &jump {
        None => client::connect_stream(config, tcp(host, to).await?, checker).await,
        Some(jump) => {
            let port = u32::from(host.port);
            let channel = jump
                .handle
                .channel_open_direct_tcpip(host.address.clone(), port, "127.0.0.1", 0)
                .await
                .map_err(|e| {
                    login_error(&UNREACHABLE, host, format!("through the jump host: {e}"))
                })?;
            client::connect_stream(config, channel.into_stream(), checker).await
        }
    };
    let presented = || {
        presented
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    let mut handle = connected.map_err(|error| match presented() {
        Some(key) if !trusted.is_empty() && !is_trusted(&trusted, &key) => {
            host_key_changed(host, &trusted, &key)
        }
        _ => login_error(&UNREACHABLE, host, error.to_string()),
    })?;
    log_in(&mut handle, host).await?;
    if let (true, Some(key)) = (trusted.is_empty(), presented()) {
        host_keys.learn(target, &to_openssh(&key)).await?;
    }
    Ok(Connection {
        handle,
        users: AtomicUsize::new(0),
        last_used: Mutex::new(Instant::now()),
        _jump: jump,
    })
}

async fn tcp(target: &SshTarget, to: &Destinations) -> Result<TcpStream, PortError> {
    let unreachable = |error: std::io::Error| {
        let code = if is_forbidden(&error) {
            &ADDRESS
        } else {
            &UNREACHABLE
        };
        login_error(code, target, error.to_string())
    };
    let stream = to
        .connect(&target.address, target.port)
        .await
        .map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

/// Client settings; prefers the algorithms of pinned keys, so that the host presents one of them.
fn config(trusted: &[PublicKey]) -> client::Config {
    let mut preferred = russh::Preferred::DEFAULT;
    if !trusted.is_empty() {
        let mut key = preferred.key.to_vec();
        key.sort_by_key(|algorithm| {
            let rsa = algorithm.clone().is_rsa();
            !trusted
                .iter()
                .map(PublicKey::algorithm)
                .any(|k| k == *algorithm || (k.is_rsa() && rsa))
        });
        preferred.key = Cow::Owned(key);
    }
    client::Config {
        preferred,
        keepalive_interval: Some(KEEPALIVE_INTERVAL),
        keepalive_max: 3,
        nodelay: true,
        ..client::Config::default()
    }
}

/// Compares the host's key with the pinned ones, and stores it for the error or for pinning.
pub(crate) struct HostKeyChecker {
    trusted: Vec<PublicKey>,
    presented: Arc<Mutex<Option<PublicKey>>>,
}

impl client::Handler for HostKeyChecker {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        presented: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = presented else {
            return Ok(false);
        };
        *self
            .presented
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(self.trusted.is_empty() || is_trusted(&self.trusted, key))
    }
}

fn is_trusted(trusted: &[PublicKey], key: &PublicKey) -> bool {
    trusted
        .iter()
        .any(|known| known.key_data() == key.key_data())
}

fn host_key_changed(target: &SshTarget, trusted: &[PublicKey], presented: &PublicKey) -> PortError {
    let pinned: Vec<_> = trusted.iter().map(fingerprint).collect();
    let detail = format!(
        "the host key of server `{}` is {}, but {} is pinned",
        target.server_id,
        fingerprint(presented),
        pinned.join(" or "),
    );
    login_error(&HOST_KEY_CHANGED, target, detail)
}

/// Tries private key, password and keyboard-interactive in this order, as far as given.
async fn log_in(handle: &mut Handle<HostKeyChecker>, target: &SshTarget) -> Result<(), PortError> {
    let broken = |e: russh::Error| login_error(&UNREACHABLE, target, e.to_string());
    let user = target.username.as_str();
    let mut tried = Vec::new();
    if let Some(pem) = &target.private_key {
        tried.push("publickey");
        let key = decode_secret_key(pem.reveal(), None).map_err(|e| {
            login_error(
                &BAD_KEY,
                target,
                format!("the private key cannot be read: {e}"),
            )
        })?;
        let hash = if key.algorithm().is_rsa() {
            let supported = handle.best_supported_rsa_hash().await.map_err(broken)?;
            supported.unwrap_or(Some(HashAlg::Sha512))
        } else {
            None
        };
        let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
        if is_success(
            &handle
                .authenticate_publickey(user, key)
                .await
                .map_err(broken)?,
        ) {
            return Ok(());
        }
    }
    if let Some(password) = &target.password {
        tried.extend(["password", "keyboard-interactive"]);
        let password = password.reveal();
        if is_success(
            &handle
                .authenticate_password(user, password)
                .await
                .map_err(broken)?,
        ) {
            return Ok(());
        }
        if answer_questions(handle, user, password)
            .await
            .map_err(broken)?
        {
            return Ok(());
        }
    }
    let detail = if tried.is_empty() {
        "neither a password nor a private key is given".to_owned()
    } else {
        format!("the host refused {}", tried.join(", "))
    };
    Err(login_error(&LOGIN_REFUSED, target, detail))
}

fn is_success(result: &AuthResult) -> bool {
    matches!(result, AuthResult::Success)
}

/// Keyboard-interactive: answers every prompt that does not echo with the password.
async fn answer_questions(
    handle: &mut Handle<HostKeyChecker>,
    user: &str,
    password: &str,
) -> Result<bool, russh::Error> {
    let mut state = handle
        .authenticate_keyboard_interactive_start(user, None)
        .await?;
    for _ in 0..MAX_PROMPT_ROUNDS {
        let prompts = match state {
            KeyboardInteractiveAuthResponse::Success => return Ok(true),
            KeyboardInteractiveAuthResponse::Failure { .. } => return Ok(false),
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => prompts,
        };
        let answers = prompts
            .iter()
            .map(|prompt| {
                if prompt.echo {
                    String::new()
                } else {
                    password.to_owned()
                }
            })
            .collect();
        state = handle
            .authenticate_keyboard_interactive_respond(answers)
            .await?;
    }
    Ok(matches!(state, KeyboardInteractiveAuthResponse::Success))
}
