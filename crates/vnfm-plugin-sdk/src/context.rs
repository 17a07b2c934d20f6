//! What a running hook may ask of its host.

use crate::error::{DriverError, ErrorKind, ServiceError};
use crate::http::{HttpRequest, HttpResponse};
use crate::ssh::{Ssh, SshTarget};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use vnfm_plugin_abi::{LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARN};

/// Level of a log line.
///
/// ```
/// use vnfm_plugin_sdk::Level;
/// use vnfm_plugin_sdk::testkit::TestHost;
///
/// let host = TestHost::new();
/// let cx = host.context();
/// cx.log(Level::Debug, "for who searches");
/// cx.warn("the operator should know");
/// assert_eq!(host.logs(), ["Debug: for who searches", "Warn: the operator should know"]);
/// assert_eq!(Level::Error.number(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// The hook fails because of this.
    Error,
    /// The operator should know.
    Warn,
    /// What happens.
    Info,
    /// For who searches.
    Debug,
}

impl Level {
    /// As the boundary numbers it.
    pub fn number(self) -> u32 {
        match self {
            Self::Error => LOG_ERROR,
            Self::Warn => LOG_WARN,
            Self::Info => LOG_INFO,
            Self::Debug => LOG_DEBUG,
        }
    }
}

/// The host's services by name; the boundary and the test-kit each are one.
pub(crate) trait Services: Send + Sync + 'static {
    fn call(
        &self,
        service: &str,
        request: Value,
    ) -> BoxFuture<'static, Result<Value, ServiceError>>;
    fn log(&self, level: Level, text: &str);
}

/// What a running hook may ask of its host. Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::prelude::*;
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
///
/// async fn start(cx: &HookContext, ssh: &Ssh) -> Result<String, DriverError> {
///     cx.progress(10, "starting").await;
///     // Not done again by the next attempt; its answer is kept.
///     let init = async { Ok(ssh.check("init", "service-init").await?.stdout) };
///     let token: String = cx.step("init", init).await?;
///     // Says what it waits for, and ends when the operation is cancelled.
///     let is_up = || async { Ok(ssh.run("service-up").await?.ok().then_some(())) };
///     let (pace, limit) = (Duration::from_secs(2), Duration::from_secs(60));
///     cx.until("the service to be up", pace, limit, is_up).await?;
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
/// assert_eq!(inits, 1, "the second attempt took the answer of the first");
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

    /// Calls a service by name: for what this SDK has no method for.
    ///
    /// ```
    /// use vnfm_plugin_sdk::ServiceError;
    /// use vnfm_plugin_sdk::serde_json::{Value, json};
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let cx = TestHost::new().context();
    /// let answer: Value = block_on(cx.call("cancelled", json!({}))).unwrap();
    /// assert_eq!(answer["cancelled"], false);
    /// let refused: Result<Value, ServiceError> = block_on(cx.call("telnet", json!({})));
    /// assert_eq!(refused.unwrap_err().service, "telnet");
    /// ```
    ///
    /// # Errors
    ///
    /// As the service says; `Broken` where its answer is not a `T`.
    pub async fn call<T: DeserializeOwned>(
        &self,
        service: &str,
        request: Value,
    ) -> Result<T, ServiceError> {
        let answer = self.services.call(service, request).await?;
        serde_json::from_value(answer).map_err(|error| {
            let said = format!("the host's answer has the wrong shape: {error}");
            ServiceError::new(service, ErrorKind::Broken, said)
        })
    }

    /// A host to run commands on.
    pub fn ssh(&self, target: SshTarget) -> Ssh {
        Ssh::new(self.clone(), target)
    }

    /// Sends an HTTP request; any status is an answer.
    ///
    /// # Errors
    ///
    /// Where no answer comes.
    pub async fn http(&self, request: HttpRequest) -> Result<HttpResponse, ServiceError> {
        self.call("http", as_json("http", &request)?).await
    }

    /// Paths of all files of the package.
    ///
    /// # Errors
    ///
    /// Where the package cannot be read.
    pub async fn artifacts(&self) -> Result<Vec<String>, ServiceError> {
        let mut answer: Value = self.call("artifact.list", json!({})).await?;
        serde_json::from_value(answer["paths"].take()).map_err(|error| {
            ServiceError::new("artifact.list", ErrorKind::Broken, error.to_string())
        })
    }

    /// A file of the package.
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
    /// `Refused` where the package has none of that path.
    pub async fn artifact(&self, path: &str) -> Result<Vec<u8>, ServiceError> {
        let answer: Value = self.call("artifact.read", json!({ "path": path })).await?;
        let content = answer
            .get("contentBase64")
            .and_then(Value::as_str)
            .unwrap_or_default();
        BASE64_STANDARD.decode(content).map_err(|error| {
            ServiceError::new("artifact.read", ErrorKind::Broken, error.to_string())
        })
    }

    /// Tells the operator how far the hook is. A host that does not listen is no reason to stop.
    pub async fn progress(&self, percent: u8, message: &str) {
        let request = json!({ "percent": percent.min(100), "message": message });
        let _ = self.services.call("progress", request).await;
    }

    /// Tells the operator what the hook waits for.
    pub async fn waiting(&self, what: &str) {
        let _ = self.services.call("waiting", json!({ "for": what })).await;
    }

    /// What [`HookContext::save_checkpoint`] kept under `key`, in this attempt or an earlier one.
    ///
    /// # Errors
    ///
    /// Where the store does not answer, or what was kept is no `T`.
    pub async fn checkpoint<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, ServiceError> {
        let mut answer: Value = self.call("checkpoint.get", json!({ "key": key })).await?;
        match answer["value"].take() {
            Value::Null => Ok(None),
            value => serde_json::from_value(value).map(Some).map_err(|error| {
                let said = format!("checkpoint `{key}` has another shape than expected: {error}");
                ServiceError::new("checkpoint.get", ErrorKind::Broken, said)
            }),
        }
    }

    /// Keeps `value` over a crash and a retry; it is sealed and may hold secrets. [`HookContext::step`] is what most
    /// hooks need.
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
    /// Where the store does not take it.
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

    /// Runs `work` unless an earlier attempt of this hook finished it: then its answer is taken from there.
    ///
    /// A crash between the work and the note of it repeats the work, so `work` must say "make it so".
    ///
    /// # Errors
    ///
    /// As `work`, and where the note cannot be read or written.
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

    /// Looks with `look`, `every` so often, until it has something; `what` is what the operator reads meanwhile.
    ///
    /// # Errors
    ///
    /// As `look`; `cancelled` where the operation is being cancelled; `timed-out` after `at_most`.
    pub async fn until<T, F, Look>(
        &self,
        what: &str,
        every: Duration,
        at_most: Duration,
        mut look: F,
    ) -> Result<T, DriverError>
    where
        F: FnMut() -> Look,
        Look: Future<Output = Result<Option<T>, DriverError>>,
    {
        let every = every.max(Duration::from_millis(10));
        let mut waited = Duration::ZERO;
        loop {
            if let Some(seen) = look().await? {
                return Ok(seen);
            }
            if waited >= at_most {
                let said = format!("waited {} s for: {what}", at_most.as_secs());
                return Err(DriverError::new("timed-out", said).retryable());
            }
            self.waiting(what).await;
            self.check_cancelled().await?;
            self.sleep(every).await?;
            waited += every;
        }
    }

    /// Lets time pass. To wait for something, [`HookContext::until`] is better: it says what for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let host = TestHost::new();
    /// let cx = host.context();
    /// block_on(cx.waiting("the other half of the pair"));
    /// block_on(cx.sleep(Duration::from_secs(60))).unwrap(); // at once, here
    /// assert_eq!(host.waiting(), ["the other half of the pair"]);
    /// ```
    ///
    /// # Errors
    ///
    /// Where the host does not know the service.
    pub async fn sleep(&self, duration: Duration) -> Result<(), ServiceError> {
        let request = json!({ "seconds": duration.as_secs_f64() });
        self.call::<Value>("sleep", request).await.map(|_| ())
    }

    /// True once somebody wants the operation to stop. Long hooks look now and then; [`HookContext::until`] does.
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
        let answer = self.services.call("cancelled", json!({})).await;
        answer.is_ok_and(|answer| answer["cancelled"] == true)
    }

    /// An error once somebody wants the operation to stop.
    ///
    /// # Errors
    ///
    /// `cancelled`.
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

    /// Writes a line of level info.
    pub fn info(&self, text: &str) {
        self.log(Level::Info, text);
    }

    /// Writes a line of level warn.
    pub fn warn(&self, text: &str) {
        self.log(Level::Warn, text);
    }
}

// A step that answers nothing still leaves a note.
#[derive(Serialize, serde::Deserialize)]
struct Done<T> {
    output: T,
}

fn as_json<T: Serialize>(service: &str, value: &T) -> Result<Value, ServiceError> {
    serde_json::to_value(value)
        .map_err(|error| ServiceError::new(service, ErrorKind::Broken, error.to_string()))
}

/// Runs many futures, at most `limit` at a time; the answers come in the order of the futures, and one that
/// fails does not stop the others.
///
/// ```
/// use vnfm_plugin_sdk::join_all_limited;
/// use vnfm_plugin_sdk::testkit::block_on;
///
/// let squares = join_all_limited(2, (1..=3).map(|n| async move { n * n }));
/// assert_eq!(block_on(squares), [1, 4, 9]);
/// ```
pub fn join_all_limited<F: Future>(limit: usize, work: impl IntoIterator<Item = F>) -> JoinAll<F> {
    // Collected now: a lazy iterator in the future's type would keep many a closure from being `Send` enough.
    let work: Vec<F> = work.into_iter().collect();
    JoinAll {
        answers: Box::pin(stream::iter(work).buffered(limit.max(1)).collect()),
    }
}

type Answers<F> = stream::Collect<
    stream::Buffered<stream::Iter<std::vec::IntoIter<F>>>,
    Vec<<F as Future>::Output>,
>;

/// The future of [`join_all_limited`].
///
/// ```
/// use vnfm_plugin_sdk::testkit::block_on;
/// use vnfm_plugin_sdk::{JoinAll, join_all_limited};
///
/// let both: JoinAll<_> = join_all_limited(2, ["a", "b"].map(std::future::ready));
/// assert_eq!(block_on(both), ["a", "b"]);
/// ```
#[must_use = "nothing runs until it is awaited"]
pub struct JoinAll<F: Future> {
    answers: Pin<Box<Answers<F>>>,
}

impl<F: Future> std::fmt::Debug for JoinAll<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinAll")
    }
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.answers.as_mut().poll(context)
    }
}
