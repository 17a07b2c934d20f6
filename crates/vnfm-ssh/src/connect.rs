//! One connection: TCP or through a jump host, the host key checked, logged in.

use crate::errors::{self, ADDRESS, BAD_KEY, HOST_KEY_CHANGED, LOGIN_REFUSED, UNREACHABLE, login};
use crate::host_keys::{HostKeys, fingerprint, parse, remembered};
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
use vnfm_core::ports::{PortError, SshTarget};
use vnfm_outbound::{Destinations, is_forbidden};

/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(30);
/// How often a silent host is asked whether it is there; three times in vain end the connection.
const ALIVE: Duration = Duration::from_secs(10);
/// How many rounds of questions keyboard-interactive may have.
const ROUNDS: usize = 5;

/// A connection that is logged in.
pub(crate) struct Connection {
    /// The library's handle.
    pub(crate) handle: Handle<Checker>,
    /// Commands that run on it.
    busy: AtomicUsize,
    /// When the last one ended.
    used: Mutex<Instant>,
    /// The connection that carries it.
    _jump: Option<Arc<Connection>>,
}

impl Connection {
    /// Counts a command until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Whether nobody has used it for `time`.
    pub(crate) fn idle_for(&self, time: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.busy.load(Ordering::Acquire) == 0 && used.elapsed() >= time
    }
}

/// A command in flight on a connection.
pub(crate) struct Busy(Arc<Connection>);

impl Busy {
    /// The connection.
    pub(crate) fn connection(&self) -> &Connection {
        &self.0
    }

    /// The connection, to be held by another that goes through it.
    pub(crate) fn shared(&self) -> Arc<Connection> {
        self.0.clone()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Connects to `target`, through `jump` where given, and logs in.
pub(crate) async fn connect(
    target: &SshTarget,
    jump: Option<Arc<Connection>>,
    trust: (&dyn HostKeys, &Destinations),
) -> Result<Connection, PortError> {
    match timeout(CONNECT, connect_unbounded(target, jump, trust)).await {
        Ok(result) => result,
        Err(_) => Err(errors::too_slow(
            &format!("log in to `{}`", target.address),
            CONNECT,
        )),
    }
}

async fn connect_unbounded(
    target: &SshTarget,
    jump: Option<Arc<Connection>>,
    trust: (&dyn HostKeys, &Destinations),
) -> Result<Connection, PortError> {
    let (host_keys, to) = trust;
    let pinned = host_keys.known(target).await?;
    let trusted = pinned.as_deref().map(parse).unwrap_or_default();
    let shown = Arc::new(Mutex::new(None));
    let checker = Checker {
        trusted: trusted.clone(),
        shown: shown.clone(),
    };
    let config = Arc::new(config(&trusted));
    let connected = match &jump {
        None => client::connect_stream(config, tcp(target, to).await?, checker).await,
        Some(jump) => {
            let port = u32::from(target.port);
            let channel = jump
                .handle
                .channel_open_direct_tcpip(target.address.clone(), port, "127.0.0.1", 0)
                .await
                .map_err(|e| login(&UNREACHABLE, target, format!("through the jump host: {e}")))?;
            client::connect_stream(config, channel.into_stream(), checker).await
        }
    };
    let shown = || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut handle = connected.map_err(|error| match shown() {
        Some(key) if !trusted.is_empty() && !trusts(&trusted, &key) => {
            changed(target, &trusted, &key)
        }
        _ => login(&UNREACHABLE, target, error.to_string()),
    })?;
    log_in(&mut handle, target).await?;
    if let (true, Some(key)) = (trusted.is_empty(), shown()) {
        host_keys.learn(target, &remembered(&key)).await?;
    }
    Ok(Connection {
        handle,
        busy: AtomicUsize::new(0),
        used: Mutex::new(Instant::now()),
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
        login(code, target, error.to_string())
    };
    let stream = to
        .connect(&target.address, target.port)
        .await
        .map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

/// Our side of the protocol; the algorithms of keys that we know come first, so that the host shows one of them.
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
        keepalive_interval: Some(ALIVE),
        keepalive_max: 3,
        nodelay: true,
        ..client::Config::default()
    }
}

/// Compares the host's key with the pinned ones and keeps it for the error or the memory.
pub(crate) struct Checker {
    trusted: Vec<PublicKey>,
    shown: Arc<Mutex<Option<PublicKey>>>,
}

impl client::Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else {
            return Ok(false);
        };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(self.trusted.is_empty() || trusts(&self.trusted, key))
    }
}

fn trusts(trusted: &[PublicKey], key: &PublicKey) -> bool {
    trusted
        .iter()
        .any(|known| known.key_data() == key.key_data())
}

fn changed(target: &SshTarget, trusted: &[PublicKey], shown: &PublicKey) -> PortError {
    let pinned: Vec<_> = trusted.iter().map(fingerprint).collect();
    let detail = format!(
        "the host key of server `{}` is {}, pinned is {}",
        target.server_id,
        fingerprint(shown),
        pinned.join(" or "),
    );
    login(&HOST_KEY_CHANGED, target, detail)
}

/// Tries key, password and keyboard-interactive, what there is of them, in this order.
async fn log_in(handle: &mut Handle<Checker>, target: &SshTarget) -> Result<(), PortError> {
    let broke = |e: russh::Error| login(&UNREACHABLE, target, e.to_string());
    let user = target.username.as_str();
    let mut tried = Vec::new();
    if let Some(pem) = &target.private_key {
        tried.push("publickey");
        let key = decode_secret_key(pem.reveal(), None).map_err(|e| {
            login(
                &BAD_KEY,
                target,
                format!("the private key cannot be read: {e}"),
            )
        })?;
        let hash = if key.algorithm().is_rsa() {
            let told = handle.best_supported_rsa_hash().await.map_err(broke)?;
            told.unwrap_or(Some(HashAlg::Sha512))
        } else {
            None
        };
        let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
        if succeeded(
            &handle
                .authenticate_publickey(user, key)
                .await
                .map_err(broke)?,
        ) {
            return Ok(());
        }
    }
    if let Some(password) = &target.password {
        tried.extend(["password", "keyboard-interactive"]);
        let password = password.reveal();
        if succeeded(
            &handle
                .authenticate_password(user, password)
                .await
                .map_err(broke)?,
        ) {
            return Ok(());
        }
        if answer_questions(handle, user, password)
            .await
            .map_err(broke)?
        {
            return Ok(());
        }
    }
    let detail = if tried.is_empty() {
        "neither a password nor a private key is given".to_owned()
    } else {
        format!("the host refused {}", tried.join(", "))
    };
    Err(login(&LOGIN_REFUSED, target, detail))
}

fn succeeded(result: &AuthResult) -> bool {
    matches!(result, AuthResult::Success)
}

/// Keyboard-interactive: the password is the answer to every question that does not echo.
async fn answer_questions(
    handle: &mut Handle<Checker>,
    user: &str,
    password: &str,
) -> Result<bool, russh::Error> {
    let mut state = handle
        .authenticate_keyboard_interactive_start(user, None)
        .await?;
    for _ in 0..ROUNDS {
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
