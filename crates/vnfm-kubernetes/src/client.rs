//! Calls on a VIM: a client in memory only, with no kubeconfig, no file and no environment.
//!
//! A [`Session`] asks the VIM for its connection at each call, so that an update reaches an operation in flight.
//! Within an operation it bears an API server that is away or overloaded for [`PATIENCE`]: it says so, and asks again.

use crate::connection::{Connection, Trust};
use crate::errors::{self, UNREACHABLE};
use futures::future::{Either, select};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{Clock, PortError, Vim, VimCall, Watcher};
use vnfm_outbound::Destinations;

pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence of the API server; watches end before it ([`crate::watch`]).
pub(crate) const SILENCE: Duration = Duration::from_secs(45);
/// How long calls of an operation are repeated while nobody answers, or only 429 and 5xx come.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// Pauses between such tries grow from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Calls on one VIM, each with the connection that is valid at that moment.
pub(crate) struct Session<'a> {
    vim: &'a dyn Vim,
    to: &'a Destinations,
    limit: Option<Limit<'a>>,
    /// As whom, where that is not whom the login is of.
    user: Option<String>,
    held: Mutex<Option<Held>>,
}

/// What the calls of an operation know of its time.
#[derive(Clone, Copy)]
struct Limit<'a> {
    clock: &'a dyn Clock,
    deadline: Timestamp,
    watcher: &'a dyn Watcher,
}

impl Limit<'_> {
    fn left(&self) -> Duration {
        self.deadline
            .duration_since(self.clock.now())
            .try_into()
            .unwrap_or(Duration::ZERO)
    }
}

#[derive(Clone)]
struct Held {
    version: u64,
    client: Client,
    namespace: Option<String>,
    verified: bool,
}

impl<'a> Session<'a> {
    /// Calls without a deadline but the client's own time limits.
    pub(crate) fn new(vim: &'a dyn Vim, to: &'a Destinations) -> Self {
        Self {
            vim,
            to,
            limit: None,
            user: None,
            held: Mutex::default(),
        }
    }

    /// Calls that end at the deadline of `cx`, and are repeated while the API server is away for a moment.
    ///
    /// # Errors
    ///
    /// Where the VIM's policy names no user that there can be.
    pub(crate) fn within(cx: &VimCall<'a>, to: &'a Destinations) -> Result<Self, PortError> {
        let limit = Limit {
            clock: cx.clock,
            deadline: cx.deadline,
            watcher: cx.watcher,
        };
        let user = crate::policy::user_of(cx.vim.policy(), &cx.ownership.tenant)?;
        Ok(Self {
            limit: Some(limit),
            user,
            ..Self::new(cx.vim, to)
        })
    }

    /// The VIM's name, for messages.
    pub(crate) fn vim(&self) -> &str {
        self.vim.name()
    }

    /// The client for the connection that is valid now.
    ///
    /// # Errors
    ///
    /// Where the connection cannot be read.
    pub(crate) async fn client(&self) -> Result<Client, PortError> {
        Ok(self.held().await?.client)
    }

    /// The namespace that the VIM's record asks for.
    ///
    /// # Errors
    ///
    /// Where the connection cannot be read.
    pub(crate) async fn namespace(&self) -> Result<Option<String>, PortError> {
        Ok(self.held().await?.namespace)
    }

    /// An error of the client in the driver's words; without the API server's own, where those are not shown.
    pub(crate) fn told(&self, doing: &str, error: &kube::Error) -> PortError {
        let told = errors::told(doing, error);
        if self.vim.exposes_responses() {
            told
        } else {
            errors::hidden(told, error)
        }
    }

    /// Whether the API server's certificate is verified.
    ///
    /// # Errors
    ///
    /// Where the connection cannot be read.
    pub(crate) async fn is_verified(&self) -> Result<bool, PortError> {
        Ok(self.held().await?.verified)
    }

    /// Whether the registry has another connection by now than the one used last.
    pub(crate) async fn was_updated(&self) -> bool {
        let used = self.lock().as_ref().map(|held| held.version);
        self.vim
            .connection()
            .await
            .is_ok_and(|login| Some(login.version) != used)
    }

    /// One call. A refused login is tried once more where the connection was updated meanwhile.
    ///
    /// # Errors
    ///
    /// In the driver's words.
    pub(crate) async fn call<T, F, Fut>(&self, doing: &str, run: F) -> Result<T, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        self.attempt(doing, run)
            .await?
            .map_err(|error| self.told(doing, &error))
    }

    /// One call whose "there is no such thing" is `None`.
    ///
    /// # Errors
    ///
    /// In the driver's words.
    pub(crate) async fn find<T, F, Fut>(&self, doing: &str, run: F) -> Result<Option<T>, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        match self.attempt(doing, run).await? {
            Ok(found) => Ok(Some(found)),
            Err(error) if errors::status(&error) == 404 => Ok(None),
            Err(error) => Err(self.told(doing, &error)),
        }
    }

    async fn attempt<T, F, Fut>(&self, doing: &str, run: F) -> Result<kube::Result<T>, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        let Some(limit) = self.limit else {
            return self.once(doing, &run).await;
        };
        let patient_until = limit.clock.now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = self.once(doing, &run).await?;
            let Err(error) = &answer else {
                return Ok(answer);
            };
            let asked = errors::asked_to_wait(error);
            let next = asked.unwrap_or(pause);
            let too_late = limit.clock.now() + next >= patient_until || next >= limit.left();
            if !errors::may_pass(error) || too_late {
                return Ok(answer);
            }
            let told = self.told(doing, error);
            let reason = format!("VIM `{}` to answer: {}", self.vim(), told.detail());
            limit.watcher.waiting(&reason);
            limit.clock.sleep(next).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn once<T, F, Fut>(&self, doing: &str, run: &F) -> Result<kube::Result<T>, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        let answer = self
            .limited(doing, self.in_turn(doing, run(self.client().await?)))
            .await?;
        match answer {
            Err(error) if errors::status(&error) == 401 && self.was_updated().await => {
                self.limited(doing, self.in_turn(doing, run(self.client().await?)))
                    .await
            }
            answer => Ok(answer),
        }
    }

    /// A call, made once it is its turn at the VIM.
    async fn in_turn<T>(
        &self,
        doing: &str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> kube::Result<T> {
        let turn = self
            .vim
            .acquire_slot(doing, self.limit.map(|limit| limit.watcher))
            .await;
        let answer = call.await;
        let told = answer
            .as_ref()
            .err()
            .is_none_or(|error| errors::status(error) == 404);
        turn.ended(told);
        answer
    }

    async fn limited<T>(&self, doing: &str, call: impl Future<Output = T>) -> Result<T, PortError> {
        let Some(limit) = self.limit else {
            return Ok(call.await);
        };
        match select(pin!(call), limit.clock.sleep(limit.left())).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(_) => Err(PortError::new(
                &UNREACHABLE,
                doing,
                "no answer before the deadline of the step",
            )
            .on(self.vim())),
        }
    }

    async fn held(&self) -> Result<Held, PortError> {
        let login = self.vim.connection().await?;
        if let Some(held) = self
            .lock()
            .as_ref()
            .filter(|held| held.version == login.version)
        {
            return Ok(held.clone());
        }
        let connection =
            Connection::read(&login.info).map_err(|error| error.on(self.vim.name()))?;
        let mut to = self.to.clone();
        if self.vim.keeps_unchecked_address(&login.info) {
            let proxy = connection.proxy.iter().map(ToString::to_string);
            to = proxy.fold(
                to.and_host_of(&connection.endpoint.to_string()),
                |to, proxy| to.and_host_of(&proxy),
            );
        }
        let held = Held {
            version: login.version,
            client: connection.client(to, self.user.as_deref())?,
            verified: connection.trust != Trust::Unverified,
            namespace: connection.namespace,
        };
        *self.lock() = Some(held.clone());
        Ok(held)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
