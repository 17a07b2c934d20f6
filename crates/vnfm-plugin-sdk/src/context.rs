//! The services that a running hook can call.

use crate::error::{DriverError, ErrorKind, ServiceError};
use crate::http::{HttpRequest, HttpResponse};
#[doc(no_inline)]
pub use crate::join::{JoinAll, join_all_limited};
use crate::ssh::{Ssh, SshTarget, StoredFile};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vnfm_plugin_abi::{LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARN};
use vnfm_plugin_messages::{Credential, CredentialRequest, Object};

/// Level of a log line.
///
/// ```
/// use vnfm_plugin_sdk::Level;
/// use vnfm_plugin_sdk::testkit::TestHost;
///
/// let host = TestHost::new();
/// let cx = host.context();
/// cx.log(Level::Debug, "for troubleshooting");
/// cx.warn("disk almost full");
/// assert_eq!(host.logs(), ["Debug: for troubleshooting", "Warn: disk almost full"]);
/// assert_eq!(Level::Error.number(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// The hook fails because of this.
    Error,
    /// Something that the operator should know about.
    Warn,
    /// Progress that the operator may want to read.
    Info,
    /// Details that matter only for troubleshooting.
    Debug,
}

impl Level {
    /// Number of the level in the plugin ABI.
    pub fn number(self) -> u32 {
        match self {
            Self::Error => LOG_ERROR,
            Self::Warn => LOG_WARN,
            Self::Info => LOG_INFO,
            Self::Debug => LOG_DEBUG,
        }
    }
}

/// The host's services, called by name; implemented over the plugin ABI and by the test kit.
pub(crate) trait Services: Send + Sync + 'static {
    fn call(
        &self,
        service: &str,
        request: Value,
    ) -> BoxFuture<'static, Result<Value, ServiceError>>;
    fn log(&self, level: Level, text: &str);
}

/// The host's services, for one running hook. Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::prelude::*;
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
///
/// async fn start(cx: &HookContext, ssh: &Ssh) -> Result<String, DriverError> {
///     cx.progress(10, "starting").await;
///     // Runs once: the result is saved, and the next attempt gets it from there.
///     let init = async { Ok(ssh.check("init", "service-init").await?.stdout) };
///     let token: String = cx.step("init", init).await?;
///     // Shows the operator what it waits for; fails if the operation is cancelled.
///     let is_up = || async { Ok(ssh.run("service-up").await?.ok().then_some(())) };
///     let (interval, timeout) = (Duration::from_secs(2), Duration::from_secs(60));
///     cx.wait_until("the service to be up", interval, timeout, is_up).await?;
///     cx.info("the service is up");
///     Ok(token)
/// }
///
/// let host = TestHost::new()
///     .ssh("10.0.0.1", "service-init", Reply::ok("token"))
///     .ssh_each("10.0.0.1", "service-up", [Reply::exit(1, ""), Reply::ok("")]);
/// let cx = host.context();
/// let ssh = cx.ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// assert_eq!(block_on(start(&cx, &ssh)).unwrap(), "token");
/// block_on(start(&cx, &ssh)).unwrap();
/// let inits = host.commands().iter().filter(|line| line.contains("init")).count();
/// assert_eq!(inits, 1, "the second attempt reused the result of the first");
/// ```
#[derive(Clone)]
pub struct HookContext {
    services: Arc<dyn Services>,
}

impl std::fmt::Debug for HookContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookContext")
    }
}

impl HookContext {
    pub(crate) fn new(services: Arc<dyn Services>) -> Self {
        Self { services }
    }

    /// Calls a service by name, for services that this SDK has no method for.
    ///
    /// ```
    /// use vnfm_plugin_sdk::ServiceError;
    /// use vnfm_plugin_sdk::serde_json::{Value, json};
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let cx = TestHost::new().context();
    /// let response: Value = block_on(cx.call("cancelled", json!({}))).unwrap();
    /// assert_eq!(response["cancelled"], false);
    /// let refused: Result<Value, ServiceError> = block_on(cx.call("telnet", json!({})));
    /// assert_eq!(refused.unwrap_err().service, "telnet");
    /// ```
    ///
    /// # Errors
    ///
    /// The service's own error; [`ErrorKind::Broken`] if its response is not a `T`.
    pub async fn call<T: DeserializeOwned>(
        &self,
        service: &str,
        request: Value,
    ) -> Result<T, ServiceError> {
        let response = self.services.call(service, request).await?;
        serde_json::from_value(response).map_err(|error| {
            let detail = format!("unexpected response from the host: {error}");
            ServiceError::new(service, ErrorKind::Broken, detail)
        })
    }

    /// Addresses a host for SSH; connects on first use.
    pub fn ssh(&self, target: SshTarget) -> Ssh {
        Ssh::new(self.clone(), target)
    }

    /// Sends an HTTP request. A response of any status is `Ok`.
    ///
    /// # Errors
    ///
    /// If no response arrives: connection refused, untrusted certificate, timeout.
    pub async fn http(&self, request: HttpRequest) -> Result<HttpResponse, ServiceError> {
        self.call("http", as_json("http", &request)?).await
    }

    /// Paths of all files in the VNF package.
    ///
    /// # Errors
    ///
    /// If the package cannot be read.
    pub async fn artifacts(&self) -> Result<Vec<String>, ServiceError> {
        let mut response: Value = self.call("artifact.list", json!({})).await?;
        serde_json::from_value(response["paths"].take()).map_err(|error| {
            ServiceError::new("artifact.list", ErrorKind::Broken, error.to_string())
        })
    }

    /// Reads a file of the VNF package.
    ///
    /// ```
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let host = TestHost::new().file("Files/app.conf", "port = 80");
    /// let cx = host.context();
    /// assert_eq!(block_on(cx.artifacts()).unwrap(), ["Files/app.conf"]);
    /// assert_eq!(block_on(cx.artifact("Files/app.conf")).unwrap(), b"port = 80");
    /// assert!(block_on(cx.artifact("Files/other")).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] if the package has no file of that path.
    pub async fn artifact(&self, path: &str) -> Result<Vec<u8>, ServiceError> {
        let response: Value = self.call("artifact.read", json!({ "path": path })).await?;
        let content = response
            .get("contentBase64")
            .and_then(Value::as_str)
            .unwrap_or_default();
        BASE64_STANDARD.decode(content).map_err(|error| {
            ServiceError::new("artifact.read", ErrorKind::Broken, error.to_string())
        })
    }

    /// A login to the VIM for programs that run inside the VNF. It exists until the VNF instance is terminated, or the
    /// operation that created it is rolled back. The same name yields the same login, also in later operations.
    ///
    /// ```
    /// use vnfm_plugin_sdk::CredentialRequest;
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let cx = TestHost::new().context();
    /// let made = block_on(cx.credential(&CredentialRequest::new("cloud-provider"))).unwrap();
    /// assert_eq!(made.id, "test-cloud-provider");
    /// ```
    ///
    /// # Errors
    ///
    /// If the VIM does not offer such logins, or does not allow its user to create them.
    pub async fn credential(&self, wanted: &CredentialRequest) -> Result<Credential, ServiceError> {
        self.call("vim.credential", as_json("vim.credential", wanted)?)
            .await
    }

    /// The outputs of the instance's template on the VIM, by name: those of the Heat stack; on Kubernetes
    /// the kubeconfigs of clusters that Cluster API created, by the names of their Secrets. They may contain secrets.
    ///
    /// ```
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let cx = TestHost::new().output("pod_subnet", "subnet-1").context();
    /// assert_eq!(block_on(cx.outputs()).unwrap()["pod_subnet"], "subnet-1");
    /// ```
    ///
    /// # Errors
    ///
    /// If the VIM does not respond.
    pub async fn outputs(&self) -> Result<Object, ServiceError> {
        self.call("vim.outputs", json!({})).await
    }

    /// The files that [`Ssh::fetch`] has stored with the instance, in this operation or an earlier one, ordered by name.
    ///
    /// # Errors
    ///
    /// If the VNFM's disk cannot be read.
    pub async fn stored_files(&self) -> Result<Vec<StoredFile>, ServiceError> {
        let mut response: Value = self.call("file.list", json!({})).await?;
        serde_json::from_value(response["files"].take())
            .map_err(|error| ServiceError::new("file.list", ErrorKind::Broken, error.to_string()))
    }

    /// Deletes a file that is stored with the instance; succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// If the VNFM's disk cannot be written.
    pub async fn remove_file(&self, name: &str) -> Result<(), ServiceError> {
        let request = json!({ "name": name });
        self.call::<Value>("file.remove", request).await.map(|_| ())
    }

    /// The VNFM's time, in milliseconds since 1970.
    ///
    /// ```
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let now = block_on(TestHost::new().context().unix_milliseconds()).unwrap();
    /// assert_eq!(now, 1_796_040_000_000);
    /// ```
    ///
    /// # Errors
    ///
    /// If the host does not have this service.
    pub async fn unix_milliseconds(&self) -> Result<i64, ServiceError> {
        let response: Value = self.call("clock", json!({})).await?;
        let time = response["unixMilliseconds"].as_i64();
        time.ok_or_else(|| ServiceError::new("clock", ErrorKind::Broken, "it returned no time"))
    }

    /// Reports progress to the operator; `percent` above 100 counts as 100. Errors are ignored.
    pub async fn progress(&self, percent: u8, message: &str) {
        let request = json!({ "percent": percent.min(100), "message": message });
        let _ = self.services.call("progress", request).await;
    }

    /// Reports to the operator what the hook is waiting for. Errors are ignored.
    pub async fn waiting(&self, what: &str) {
        let _ = self.services.call("waiting", json!({ "for": what })).await;
    }

    /// Reads what [`HookContext::save_checkpoint`] stored under `key`, in this attempt or an earlier one.
    ///
    /// # Errors
    ///
    /// If the store is unavailable, or the stored value is not a `T`.
    pub async fn checkpoint<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, ServiceError> {
        let mut response: Value = self.call("checkpoint.get", json!({ "key": key })).await?;
        match response["value"].take() {
            Value::Null => Ok(None),
            value => serde_json::from_value(value).map(Some).map_err(|error| {
                let detail = format!("checkpoint `{key}` has an unexpected type: {error}");
                ServiceError::new("checkpoint.get", ErrorKind::Broken, detail)
            }),
        }
    }

    /// Stores `value`, encrypted, for attempts after crashes and retries. Most hooks use [`HookContext::step`] instead.
    ///
    /// ```
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let cx = TestHost::new().context();
    /// assert_eq!(block_on(cx.checkpoint::<u32>("joined")).unwrap(), None);
    /// block_on(cx.save_checkpoint("joined", &3)).unwrap();
    /// assert_eq!(block_on(cx.checkpoint("joined")).unwrap(), Some(3));
    /// ```
    ///
    /// # Errors
    ///
    /// If the store is unavailable, or the value or the number of checkpoints is over the limit.
    pub async fn save_checkpoint<T: Serialize + Sync>(
        &self,
        key: &str,
        value: &T,
    ) -> Result<(), ServiceError> {
        let value = as_json("checkpoint.put", value)?;
        let request = json!({ "key": key, "value": value });
        self.call::<Value>("checkpoint.put", request)
            .await
            .map(|_| ())
    }

    /// Runs `work`, or returns its saved result if an earlier attempt of this hook finished it.
    ///
    /// After a crash between the work and the saving of its result, the work runs again: it must be idempotent.
    ///
    /// # Errors
    ///
    /// The error of `work`, or that of the store if the result cannot be read or saved.
    pub async fn step<T, Work>(&self, name: &str, work: Work) -> Result<T, DriverError>
    where
        T: Serialize + DeserializeOwned + Sync,
        Work: Future<Output = Result<T, DriverError>>,
    {
        let key = format!("step/{name}");
        if let Some(Done { output }) = self.checkpoint(&key).await? {
            self.log(Level::Debug, &format!("step `{name}` was done before"));
            return Ok(output);
        }
        let output = work.await?;
        let done = Done { output };
        self.save_checkpoint(&key, &done).await?;
        Ok(done.output)
    }

    /// Calls `check` every `interval` until it returns `Some`. The operator sees "waiting for `condition`" meanwhile.
    ///
    /// # Errors
    ///
    /// The error of `check`; `cancelled` if the operation is being cancelled; `timed-out` after `timeout`.
    pub async fn wait_until<T, F, Check>(
        &self,
        condition: &str,
        interval: Duration,
        timeout: Duration,
        mut check: F,
    ) -> Result<T, DriverError>
    where
        F: FnMut() -> Check,
        Check: Future<Output = Result<Option<T>, DriverError>>,
    {
        let interval = interval.max(Duration::from_millis(10));
        // `check` takes time, too; the test kit's pauses take none.
        let (began, mut paused) = (Instant::now(), Duration::ZERO);
        loop {
            if let Some(value) = check().await? {
                return Ok(value);
            }
            if paused.max(began.elapsed()) >= timeout {
                let detail = format!("waited {} s for {condition}", timeout.as_secs());
                return Err(DriverError::new("timed-out", detail).retryable());
            }
            self.pause(condition, interval).await?;
            paused += interval;
        }
    }

    /// Waits for the next look in a loop of your own. The operator sees "waiting for `condition`" meanwhile. With an
    /// interval of zero it does not sleep.
    ///
    /// ```
    /// use std::time::Duration;
    /// use vnfm_plugin_sdk::prelude::*;
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// async fn poll(cx: &HookContext) -> Result<u32, DriverError> {
    ///     for looks in 1.. {
    ///         if looks == 3 { return Ok(looks); }
    ///         cx.pause("the third look", Duration::from_secs(10)).await?;
    ///     }
    ///     unreachable!()
    /// }
    ///
    /// let host = TestHost::new();
    /// assert_eq!(block_on(poll(&host.context())).unwrap(), 3);
    /// host.cancel_after(0);
    /// assert_eq!(block_on(poll(&host.context())).unwrap_err().code, "cancelled");
    /// ```
    ///
    /// # Errors
    ///
    /// `cancelled` if the operation is being cancelled.
    pub async fn pause(&self, condition: &str, interval: Duration) -> Result<(), DriverError> {
        self.waiting(condition).await;
        self.check_cancelled().await?;
        if !interval.is_zero() {
            self.sleep(interval).await?;
        }
        Ok(())
    }

    /// Sleeps. To wait for a condition, prefer [`HookContext::wait_until`] and [`HookContext::pause`]: they show the operator which.
    ///
    /// ```
    /// use std::time::Duration;
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let host = TestHost::new();
    /// let cx = host.context();
    /// block_on(cx.waiting("the other half of the pair"));
    /// block_on(cx.sleep(Duration::from_secs(60))).unwrap(); // returns immediately in tests
    /// assert_eq!(host.waiting(), ["the other half of the pair"]);
    /// ```
    ///
    /// # Errors
    ///
    /// If the host does not have this service.
    pub async fn sleep(&self, duration: Duration) -> Result<(), ServiceError> {
        let request = json!({ "seconds": duration.as_secs_f64() });
        self.call::<Value>("sleep", request).await.map(|_| ())
    }

    /// True once the operation is being cancelled. Long hooks should check regularly; [`HookContext::wait_until`] does.
    ///
    /// ```
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let host = TestHost::new();
    /// host.cancel_after(0);
    /// assert!(block_on(host.context().cancelled()));
    /// assert_eq!(block_on(host.context().check_cancelled()).unwrap_err().code, "cancelled");
    /// ```
    pub async fn cancelled(&self) -> bool {
        let response = self.services.call("cancelled", json!({})).await;
        response.is_ok_and(|response| response["cancelled"] == true)
    }

    /// Fails once the operation is being cancelled.
    ///
    /// # Errors
    ///
    /// [`DriverError::cancelled`] if the operation is being cancelled.
    pub async fn check_cancelled(&self) -> Result<(), DriverError> {
        if self.cancelled().await {
            Err(DriverError::cancelled())
        } else {
            Ok(())
        }
    }

    /// Writes a line to the operation's log.
    pub fn log(&self, level: Level, text: &str) {
        self.services.log(level, text);
    }

    /// Writes a line of level [`Level::Info`] to the operation's log.
    pub fn info(&self, text: &str) {
        self.log(Level::Info, text);
    }

    /// Writes a line of level [`Level::Warn`] to the operation's log.
    pub fn warn(&self, text: &str) {
        self.log(Level::Warn, text);
    }
}

// The wrapper distinguishes a step whose result is `()` from one that has not run.
#[derive(Serialize, serde::Deserialize)]
struct Done<T> {
    output: T,
}

pub(crate) fn as_json<T: Serialize>(service: &str, value: &T) -> Result<Value, ServiceError> {
    serde_json::to_value(value)
        .map_err(|error| ServiceError::new(service, ErrorKind::Broken, error.to_string()))
}
