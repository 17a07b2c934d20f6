//! Calls on a VIM: the client is configured in memory only, without kubeconfig, files or environment.
//!
//! A [`Session`] reads the VIM's connection at each call, so that an update reaches an operation in flight. Within an
//! operation it retries calls for [`RETRY_PERIOD`] while the API server is unreachable or overloaded, and reports why.

use crate::clients::{Clients, Cluster};
use crate::connection::Connection;
use crate::errors::{self, HELM, UNREACHABLE};
use crate::image_registry::ImageRegistry;
use crate::impersonation::impersonated_user;
use crate::kinds::Groups;
use futures::future::{Either, select};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{Backoff, Clock, Expired, PortError, Vim, VimCall, Watcher};
use vnfm_helm::Helm;
use vnfm_outbound::Destinations;
use vnfm_types::{Secret, VimPolicy};

/// How long a call of an operation is retried without a response, or with 429 or 5xx.
const RETRY_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// The pauses between attempts begin with the first and double up to the interval.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Calls on one VIM, each with the connection that is current at that moment.
pub(crate) struct Session<'a> {
    vim: &'a dyn Vim,
    clients: &'a Clients,
    limit: Option<OperationLimit<'a>>,
    helm: Option<&'a Helm>,
    /// The user to impersonate, if the policy names one.
    user: Option<String>,
    /// The limits of a role that chose the package, in addition to those of the VIM.
    role: Option<VimPolicy>,
    cached: Mutex<Option<CurrentCluster>>,
}

/// The deadline of an operation, and who is notified of waits.
#[derive(Clone, Copy)]
struct OperationLimit<'a> {
    clock: &'a dyn Clock,
    deadline: Timestamp,
    watcher: &'a dyn Watcher,
}

impl OperationLimit<'_> {
    fn remaining(&self) -> Duration {
        self.deadline
            .duration_since(self.clock.now())
            .try_into()
            .unwrap_or(Duration::ZERO)
    }

    /// The pauses between the attempts of one call.
    fn backoff(&self) -> Backoff<'_> {
        let until = (self.clock.now() + RETRY_PERIOD).min(self.deadline);
        Backoff::new(self.clock, self.watcher, until, RETRY_INTERVAL).starting_with(FIRST_RETRY)
    }
}

#[derive(Clone)]
struct CurrentCluster {
    version: u64,
    cluster: Cluster,
}

impl<'a> Session<'a> {
    /// Calls limited only by the client's own timeouts.
    pub(crate) fn new(vim: &'a dyn Vim, clients: &'a Clients) -> Self {
        Self {
            vim,
            clients,
            limit: None,
            helm: None,
            user: None,
            role: None,
            cached: Mutex::default(),
        }
    }

    /// Calls that end at the deadline of `cx`, and are retried during short outages.
    ///
    /// # Errors
    ///
    /// The VIM's policy yields an invalid user name.
    pub(crate) fn for_operation(cx: &VimCall<'a>, clients: &'a Clients) -> Result<Self, PortError> {
        let limit = OperationLimit {
            clock: cx.clock,
            deadline: cx.deadline,
            watcher: cx.watcher,
        };
        let user = impersonated_user(cx.vim.policy(), &cx.ownership.tenant)?;
        Ok(Self {
            limit: Some(limit),
            user,
            ..Self::new(cx.vim, clients)
        })
    }

    /// Calls as the tenant's account, if the VIM's policy names one, limited only by the client's own timeouts.
    ///
    /// # Errors
    ///
    /// The VIM's policy yields an invalid user name.
    pub(crate) fn for_tenant(
        vim: &'a dyn Vim,
        clients: &'a Clients,
        tenant: &str,
    ) -> Result<Self, PortError> {
        let user = impersonated_user(vim.policy(), tenant)?;
        Ok(Self {
            user,
            ..Self::new(vim, clients)
        })
    }

    /// The same session, which installs charts with `helm`.
    pub(crate) fn with_helm(mut self, helm: Option<&'a Helm>) -> Self {
        self.helm = helm;
        self
    }

    /// The same session, for an instance whose package was chosen by a role that is limited to `namespaces`; empty: it is
    /// not limited.
    pub(crate) fn with_role(mut self, namespaces: &[String]) -> Self {
        let is_limited = !namespaces.is_empty();
        self.role = is_limited.then(|| VimPolicy::for_namespaces(namespaces));
        self
    }

    /// The policies that limit the instance; that of the VIM comes first.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &VimPolicy> {
        std::iter::once(self.vim.policy()).chain(&self.role)
    }

    /// Whether helm runs under an account with rights in the VNF's namespace only.
    pub(crate) fn confines_helm(&self) -> bool {
        self.user.is_none() && !self.policies().all(VimPolicy::is_open)
    }

    /// The configured helm program, which installs charts.
    ///
    /// # Errors
    ///
    /// `Refused` if none is configured.
    pub(crate) fn helm(&self) -> Result<&'a Helm, PortError> {
        self.helm.ok_or_else(no_helm)
    }

    /// Whether errors may quote the VIM's responses.
    pub(crate) fn shows_responses(&self) -> bool {
        self.vim.exposes_responses()
    }

    /// The version of the API server, such as `v1.36.2`.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub(crate) async fn version(&self) -> Result<String, PortError> {
        let action = "read the API server's version";
        let version = self.call(
            action,
            |client| async move { client.apiserver_version().await },
        );
        Ok(version.await?.git_version)
    }

    /// The current connection as a kubeconfig file, which names a checked address instead of a host; with `token` in place
    /// of the VIM's login, if there is one.
    ///
    /// # Errors
    ///
    /// The connection cannot be read, or its address must not be called.
    pub(crate) async fn kubeconfig(&self, token: Option<Secret>) -> Result<Secret, PortError> {
        let (connection, to) = self.connection().await?;
        let (connection, user) = match token {
            Some(token) => (connection.with_token(token), None),
            None => (connection, self.user.as_deref()),
        };
        connection.kubeconfig(&to, user).await
    }

    /// A client with `token` in place of the VIM's login.
    ///
    /// # Errors
    ///
    /// The connection cannot be read, or its address must not be called.
    pub(crate) async fn client_with(&self, token: &Secret) -> Result<Client, PortError> {
        let (connection, to) = self.connection().await?;
        connection.with_token(token.clone()).client(to, None)
    }

    async fn connection(&self) -> Result<(Connection, Destinations), PortError> {
        let login = self.vim.connection().await?;
        let keeps_address = self.vim.keeps_unchecked_address(&login.info);
        let read = self.clients.read(&login.info, keeps_address);
        read.map_err(|error| error.on(self.vim.name()))
    }

    /// The registry of the VIM, and where calls to it may lead; `None` if its connection names none.
    ///
    /// # Errors
    ///
    /// The connection cannot be read.
    pub(crate) async fn registry(
        &self,
    ) -> Result<Option<(ImageRegistry, Destinations)>, PortError> {
        let (connection, to) = self.connection().await?;
        Ok(connection.registry.map(|registry| (registry, to)))
    }

    /// The VIM's name, for messages.
    pub(crate) fn vim(&self) -> &str {
        self.vim.name()
    }

    /// The client for the current connection.
    ///
    /// # Errors
    ///
    /// The connection cannot be read.
    pub(crate) async fn client(&self) -> Result<Client, PortError> {
        Ok(self.current().await?.client)
    }

    /// The namespace that the VIM's record names, if any.
    ///
    /// # Errors
    ///
    /// The connection cannot be read.
    pub(crate) async fn namespace(&self) -> Result<Option<String>, PortError> {
        Ok(self.current().await?.namespace)
    }

    /// The kinds of the current connection's cluster that stay the same as long as its API server runs.
    ///
    /// # Errors
    ///
    /// The connection cannot be read.
    pub(crate) async fn built_in_kinds(&self) -> Result<Arc<Groups>, PortError> {
        Ok(self.current().await?.built_in_kinds)
    }

    /// Converts a client error; omits the API server's message if the VIM must not expose responses.
    pub(crate) fn port_error(&self, action: &str, error: &kube::Error) -> PortError {
        let converted = errors::port_error(action, error);
        if self.vim.exposes_responses() {
            converted
        } else {
            errors::without_response(converted, error)
        }
    }

    /// Whether the API server's certificate is verified.
    ///
    /// # Errors
    ///
    /// The connection cannot be read.
    pub(crate) async fn is_verified(&self) -> Result<bool, PortError> {
        Ok(self.current().await?.verified)
    }

    /// Whether the connection has changed since the last call.
    pub(crate) async fn was_updated(&self) -> bool {
        let used = self.lock_cache().as_ref().map(|held| held.version);
        self.vim
            .connection()
            .await
            .is_ok_and(|login| Some(login.version) != used)
    }

    /// Makes one call. A refused login is retried once if the connection was updated meanwhile.
    ///
    /// # Errors
    ///
    /// The API server's error, as [`errors::port_error`] classifies it.
    pub(crate) async fn call<T, F, Fut>(&self, action: &str, run: F) -> Result<T, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        self.attempt(action, run)
            .await?
            .map_err(|error| self.port_error(action, &error))
    }

    /// Makes one call; a 404 is `None`.
    ///
    /// # Errors
    ///
    /// Any other error, as [`errors::port_error`] classifies it.
    pub(crate) async fn find<T, F, Fut>(&self, action: &str, run: F) -> Result<Option<T>, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        match self.attempt(action, run).await? {
            Ok(found) => Ok(Some(found)),
            Err(error) if errors::status(&error) == 404 => Ok(None),
            Err(error) => Err(self.port_error(action, &error)),
        }
    }

    async fn attempt<T, F, Fut>(&self, action: &str, run: F) -> Result<kube::Result<T>, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        let Some(limit) = self.limit else {
            return self.once(action, &run).await;
        };
        let mut backoff = limit.backoff();
        loop {
            let response = self.once(action, &run).await?;
            let Err(error) = &response else {
                return Ok(response);
            };
            if !errors::is_transient(error) {
                return Ok(response);
            }
            let cause = self.port_error(action, error);
            let reason = format!("VIM `{}` to answer: {}", self.vim(), cause.detail());
            let retry_after = errors::retry_after(error);
            if let Err(Expired) = backoff.retry(&reason, retry_after).await {
                return Ok(response);
            }
        }
    }

    async fn once<T, F, Fut>(&self, action: &str, run: &F) -> Result<kube::Result<T>, PortError>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = kube::Result<T>>,
    {
        let response = self
            .within_deadline(action, self.with_slot(action, run(self.client().await?)))
            .await?;
        match response {
            Err(error) if errors::status(&error) == 401 && self.was_updated().await => {
                self.within_deadline(action, self.with_slot(action, run(self.client().await?)))
                    .await
            }
            response => Ok(response),
        }
    }

    /// Makes a call once the VIM has a free slot.
    async fn with_slot<T>(
        &self,
        action: &str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> kube::Result<T> {
        let slot = self
            .vim
            .acquire_slot(action, self.limit.map(|limit| limit.watcher))
            .await;
        let response = call.await;
        let succeeded = response
            .as_ref()
            .err()
            .is_none_or(|error| errors::status(error) == 404);
        slot.ended(succeeded);
        response
    }

    /// Ends a call at the deadline of the step.
    ///
    /// # Errors
    ///
    /// `Unavailable` at the deadline.
    pub(crate) async fn within_deadline<T>(
        &self,
        action: &str,
        call: impl Future<Output = T>,
    ) -> Result<T, PortError> {
        let Some(limit) = self.limit else {
            return Ok(call.await);
        };
        match select(pin!(call), limit.clock.sleep(limit.remaining())).await {
            Either::Left((response, _)) => Ok(response),
            Either::Right(_) => Err(PortError::new(
                &UNREACHABLE,
                action,
                "no response before the deadline of the step",
            )
            .on(self.vim())),
        }
    }

    async fn current(&self) -> Result<Cluster, PortError> {
        let login = self.vim.connection().await?;
        if let Some(held) = self
            .lock_cache()
            .as_ref()
            .filter(|held| held.version == login.version)
        {
            return Ok(held.cluster.clone());
        }
        let held = CurrentCluster {
            version: login.version,
            cluster: self
                .clients
                .get(self.vim, login.info, self.user.as_deref())?,
        };
        *self.lock_cache() = Some(held.clone());
        Ok(held.cluster)
    }

    fn lock_cache(&self) -> MutexGuard<'_, Option<CurrentCluster>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a package with charts if no helm is configured.
pub(crate) fn no_helm() -> PortError {
    let detail = "the package has charts, and this server has no helm to install them";
    PortError::new(&HELM, "deploy the charts of the package", detail)
}
