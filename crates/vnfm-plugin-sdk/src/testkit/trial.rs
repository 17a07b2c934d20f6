//! What every hook promises, tried at each call that it makes.
//!
//! | rule | what is tried |
//! |---|---|
//! | it ends well | the hook on the world as it is, and no command that the world does not know |
//! | it bears a fault | each call fails before, or after its effect: the hook goes on, or says that a retry is of use |
//! | it bears a crash | the VNFM is killed at each call, before or after its effect |
//! | it says "make it so" | whatever went wrong, the next attempt ends in the same state, with nothing else left |
//! | it can be repeated | once it is done, another attempt changes nothing |
//! | it stops | cancelled at each call, it ends by itself or says `cancelled`, and sleeps no longer than a few seconds |
//! | it is taken back | where `taken_back` says what has to be as before: its opposite, instead of the next attempt |
//! | it is discreet | no secret is in a command line, a log, what the operator reads, an error or a message |

use super::host::TestHost;
use super::request::TestRequest;
use crate::context::join_all_limited;
use crate::driver::MgmtDriver;
use crate::error::DriverError;
use crate::messages::effects::Effects;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

type StateOf = Box<dyn Fn(&TestHost, &Effects) -> Value + Send + Sync>;

type BeforeOf = Box<dyn Fn(&TestHost) -> Value + Send + Sync>;

/// Tries what every hook promises; made by [`trial`].
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::testkit::{TestHost, Trial, Tried, Uploaded, request, trial_each};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Drain;
/// # impl MgmtDriver for Drain {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
/// #         hooks.on("heal_start", Self::drain).undone_by("heal_start", Self::back)
/// #     }
/// # }
/// # impl Drain {
/// #     async fn mark(cx: HookContext, r: HookRequest<NoParams>, text: &str) -> Result<Effects, DriverError> {
/// #         for vnfc in r.vnfcs() {
/// #             cx.ssh(vnfc.ssh("CP1", "root")?).put(Upload::new("/run/drained", text)).await?;
/// #         }
/// #         Ok(Effects::none())
/// #     }
/// #     async fn drain(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         Self::mark(cx, r, "yes").await
/// #     }
/// #     async fn back(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         Self::mark(cx, r, "no").await
/// #     }
/// # }
/// // `Drain` writes `yes` into a file of each host, and its opposite `no`.
/// fn is_drained(host: &TestHost) -> bool {
///     host.uploads().last().map(Uploaded::text).as_deref() == Some("yes")
/// }
///
/// let stage = || (TestHost::new(), request("heal_start").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]));
/// let trial: Trial<Drain> = trial_each(stage);
/// let tried: Tried = trial
///     .alike(|host, _| is_drained(host).into())
///     .taken_back(|host| is_drained(host).into())
///     .patience(Duration::from_secs(5))
///     .every(1)
///     .at_once(4)
///     .run()
///     .unwrap();
/// assert_eq!((tried.calls, tried.worlds), (1, 5));
/// ```
#[must_use = "nothing is tried until it runs"]
pub struct Trial<D> {
    stage: Box<dyn Fn() -> (TestHost, TestRequest) + Send + Sync>,
    secrets: Vec<String>,
    patience: Duration,
    step: usize,
    at_once: usize,
    state: StateOf,
    before: Option<BeforeOf>,
    driver: PhantomData<fn() -> D>,
}

impl<D> fmt::Debug for Trial<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trial({} at once)", self.at_once)
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Calls that the hook makes where nothing goes wrong.
    pub calls: usize,
    /// Worlds in which something went wrong.
    pub worlds: usize,
}

/// The promises that a hook does not keep.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{Broken, TestHost, block_on, request, trial};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Talker;
/// # impl MgmtDriver for Talker {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
/// # }
/// # impl Talker {
/// #     async fn end(self: Arc<Self>, cx: HookContext, _: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         cx.progress(50, "logged in with pass-phrase").await;
/// #         Ok(Effects::none())
/// #     }
/// # }
/// let talks = trial::<Talker>(TestHost::new, request("instantiate_end")).secret("pass-phrase");
/// let broken: Broken = block_on(talks.run_async()).unwrap_err();
/// assert_eq!(broken.sentences()[0], "a secret can be read: logged in with [the secret]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Broken(Vec<String>);

impl Broken {
    /// A sentence for each.
    pub fn sentences(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tests show it by `unwrap`.
        write!(f, "{self}")
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the hook breaks {} promises:", self.0.len())?;
        self.0
            .iter()
            .try_for_each(|sentence| write!(f, "\n- {sentence}"))
    }
}

impl std::error::Error for Broken {}

/// Tries the hook of `request` in worlds that `world` makes, a new one for each thing that goes wrong.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{TestHost, Reply, request, trial};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Greeter;
/// # impl MgmtDriver for Greeter {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
/// # }
/// # impl Greeter {
/// #     async fn end(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         for vnfc in r.vnfcs() {
/// #             cx.ssh(vnfc.ssh("CP1", "root")?).check("greet", "echo hello").await?;
/// #         }
/// #         Ok(Effects::none())
/// #     }
/// # }
/// let world = || TestHost::new().ssh("10.0.0.1", "echo", Reply::ok("hello\n"));
/// let request = request("instantiate_end").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
/// let tried = trial::<Greeter>(world, request).secret("pass-phrase").run().unwrap();
/// assert_eq!(tried.calls, 1);
/// ```
pub fn trial<D: MgmtDriver>(
    world: impl Fn() -> TestHost + Send + Sync + 'static,
    request: TestRequest,
) -> Trial<D> {
    trial_each(move || (world(), request.clone()))
}

/// The same where each world has a request of its own, such as one with its addresses.
pub fn trial_each<D: MgmtDriver>(
    stage: impl Fn() -> (TestHost, TestRequest) + Send + Sync + 'static,
) -> Trial<D> {
    Trial {
        stage: Box::new(stage),
        secrets: Vec::new(),
        patience: Duration::from_secs(10),
        step: 1,
        at_once: 1,
        state: Box::new(usual_state),
        before: None,
        driver: PhantomData,
    }
}

/// Effects, the last content of every file, and which checkpoints there are.
fn usual_state(host: &TestHost, effects: &Effects) -> Value {
    let files: BTreeMap<_, _> = host
        .uploads()
        .into_iter()
        .map(|file| {
            (
                format!("{}:{}", file.address, file.path),
                (file.text(), file.mode),
            )
        })
        .collect();
    let checkpoints: Vec<_> = host.checkpoints().into_keys().collect();
    json!({ "effects": effects, "files": files, "checkpoints": checkpoints })
}

/// What goes wrong in a world, at which call.
#[derive(Debug, Clone, Copy)]
enum Way {
    FailBefore(usize),
    FailAfter(usize),
    CrashBefore(usize),
    CrashAfter(usize),
    CancelAt(usize),
}

impl Way {
    fn prepare(self, host: &TestHost) {
        match self {
            Self::FailBefore(n) => host.fail_before(n),
            Self::FailAfter(n) => host.fail_after(n),
            Self::CrashBefore(n) => host.crash_before(n),
            Self::CrashAfter(n) => host.crash_after(n),
            Self::CancelAt(n) => host.cancel_after(n - 1),
        }
    }

    /// In words, with the call as it was where nothing went wrong.
    fn told(self, calls: &[String]) -> String {
        let (n, what) = match self {
            Self::FailBefore(n) => (n, "fails before its effect"),
            Self::FailAfter(n) => (n, "loses its answer"),
            Self::CrashBefore(n) => (n, "never happens, since the VNFM is killed"),
            Self::CrashAfter(n) => (n, "is the last before the VNFM is killed"),
            Self::CancelAt(n) => (n, "is the first after the operation is cancelled"),
        };
        let call = n
            .checked_sub(1)
            .and_then(|n| calls.get(n))
            .map_or("?", String::as_str);
        format!("call {n} ({call}) {what}")
    }
}

impl<D: MgmtDriver> Trial<D> {
    /// Text that nobody may read: looked for in everything that is shown.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// How long the hook may sleep once its operation is cancelled; ten seconds unless said otherwise.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Tries only every `step`th call, where a world is dear.
    pub fn every(mut self, step: usize) -> Self {
        self.step = step.max(1);
        self
    }

    /// Tries so many worlds at once, where they take their time.
    pub fn at_once(mut self, worlds: usize) -> Self {
        self.at_once = worlds.max(1);
        self
    }

    /// What has to be the same however the hook came to its end; where nothing is said: its effects, the files on the
    /// hosts and the names of its checkpoints.
    pub fn alike(
        mut self,
        state: impl Fn(&TestHost, &Effects) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.state = Box::new(state);
        self
    }

    /// Tries the hook's opposite as well: after it, `state` has to be what it was before the hook began, wherever the
    /// hook was when somebody chose to roll back. For hooks that are [`undone_by`](crate::Hooks::undone_by) another, such
    /// as a `heal_start` that takes out of service what is to be replaced.
    pub fn taken_back(
        mut self,
        state: impl Fn(&TestHost) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(Box::new(state));
        self
    }

    /// Tries everything.
    ///
    /// # Errors
    ///
    /// Every promise that is not kept.
    pub fn run(self) -> Result<Tried, Broken> {
        futures::executor::block_on(self.run_async())
    }

    /// The same where worlds need a runtime.
    ///
    /// # Errors
    ///
    /// As [`Trial::run`].
    pub async fn run_async(self) -> Result<Tried, Broken> {
        let mut broken = Vec::new();
        let (wanted, calls) = self
            .clean(&mut broken)
            .await
            .map_err(|why| Broken(vec![why]))?;
        let ways = (1..=calls.len()).step_by(self.step).flat_map(|n| {
            [
                Way::FailBefore(n),
                Way::FailAfter(n),
                Way::CrashBefore(n),
                Way::CrashAfter(n),
                Way::CancelAt(n),
            ]
        });
        let tried = ways.map(|way| self.told(way, &calls, &wanted));
        let outcomes = join_all_limited(self.at_once, tried).await;
        let worlds = outcomes.len();
        broken.extend(outcomes.into_iter().flatten());
        if broken.is_empty() {
            Ok(Tried {
                calls: calls.len(),
                worlds,
            })
        } else {
            Err(Broken(broken))
        }
    }

    /// The hook where nothing goes wrong, twice: its end state, and its calls.
    async fn clean(&self, broken: &mut Vec<String>) -> Result<(Value, Vec<String>), String> {
        let (host, request) = (self.stage)();
        let ended = host.run_async::<D>(request.clone()).await;
        broken.extend(self.leak(&host, &ended));
        let effects =
            ended.map_err(|error| format!("where nothing goes wrong it fails: {error}"))?;
        let unknown = host.unknown_commands();
        if !unknown.is_empty() {
            return Err(format!("the world has no answer to {unknown:?}"));
        }
        let state = (self.state)(&host, &effects);
        let calls = host
            .calls()
            .iter()
            .map(|(service, request)| named(service, request))
            .collect();
        let again = host.run_async::<D>(request.attempt(2)).await;
        broken.extend(match again {
            Err(error) => Some(format!("once it is done, another attempt fails: {error}")),
            Ok(effects) => difference(&state, &(self.state)(&host, &effects))
                .map(|what| format!("once it is done, another attempt changes {what}")),
        });
        Ok((state, calls))
    }

    /// What is not as it should be where one thing goes wrong.
    async fn told(&self, way: Way, calls: &[String], wanted: &Value) -> Option<String> {
        let mut broken = self.one(way, wanted).await.err();
        if let (None, Some(state)) = (&broken, &self.before) {
            broken = self.back(way, state).await.err();
        }
        broken.map(|why| format!("{}: {why}", way.told(calls)))
    }

    /// One thing goes wrong; then the hook is taken back, twice.
    async fn back(&self, way: Way, state: &BeforeOf) -> Result<(), String> {
        let (host, request) = (self.stage)();
        let before = state(&host);
        way.prepare(&host);
        // However it ends: whoever rolls back does not ask.
        let _ = host.run_async::<D>(request.clone()).await;
        host.go_on();
        for time in ["its opposite", "its opposite, once more,"] {
            let undone = host.run_async::<D>(request.clone().undo()).await;
            if let Some(leak) = self.leak(&host, &undone) {
                return Err(leak);
            }
            undone.map_err(|error| format!("and {time} fails: {error}"))?;
            if let Some(what) = difference(&before, &state(&host)) {
                return Err(format!("after {time} {what} is not as it was before"));
            }
        }
        Ok(())
    }

    /// One thing goes wrong; then the hook is told to go on.
    async fn one(&self, way: Way, wanted: &Value) -> Result<(), String> {
        let (host, request) = (self.stage)();
        way.prepare(&host);
        let first = host.run_async::<D>(request.clone()).await;
        if let Some(leak) = self.leak(&host, &first) {
            return Err(leak);
        }
        let slept = host.slept_while_cancelled();
        if slept > self.patience {
            return Err(format!("and the hook sleeps {} s more", slept.as_secs()));
        }
        let effects = match first {
            Ok(effects) => effects,
            Err(error) => {
                fair(way, &error)?;
                host.go_on();
                let second = host.run_async::<D>(request.attempt(2)).await;
                second.map_err(|error| format!("and the next attempt fails: {error}"))?
            }
        };
        let state = (self.state)(&host, &effects);
        difference(wanted, &state).map_or(Ok(()), |what| Err(format!("in the end {what} differs")))
    }

    /// Where a secret can be read.
    fn leak(&self, host: &TestHost, ended: &Result<Effects, DriverError>) -> Option<String> {
        let told = match ended {
            Ok(effects) => json!([effects.message, effects.metadata]).to_string(),
            Err(error) => format!("{error} {}", error.last_lines.join("\n")),
        };
        self.secrets.iter().find_map(|secret| {
            let mut places = host.leaks_of(secret);
            places.extend(told.contains(secret.as_str()).then(|| told.clone()));
            let place = places.first()?.replace(secret.as_str(), "[the secret]");
            Some(format!("a secret can be read: {place}"))
        })
    }
}

/// Whether `error` is what a hook may say where this went wrong.
fn fair(way: Way, error: &DriverError) -> Result<(), String> {
    match way {
        Way::CancelAt(_) if error.code == "cancelled" => Ok(()),
        Way::CancelAt(_) => Err(format!(
            "and the hook fails otherwise than by `cancelled`: {error}"
        )),
        _ if error.retryable => Ok(()),
        _ => Err(format!(
            "and the hook says that a retry is of no use: {error}"
        )),
    }
}

/// A call in a few words.
fn named(service: &str, request: &Value) -> String {
    let address = request["host"]["address"].as_str();
    let what = ["command", "path", "url", "key"]
        .iter()
        .find_map(|name| request[name].as_str());
    [Some(service), address, what]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The first member in which two values differ.
fn difference(wanted: &Value, found: &Value) -> Option<String> {
    if wanted == found {
        return None;
    }
    let (Value::Object(a), Value::Object(b)) = (wanted, found) else {
        return Some("the value".to_owned());
    };
    let mut names = a.keys().chain(b.keys());
    names.find_map(|name| match (a.get(name), b.get(name)) {
        (Some(_), None) => Some(format!("`{name}` (it is missing)")),
        (None, Some(_)) => Some(format!("`{name}` (it should not be there)")),
        (Some(a), Some(b)) => difference(a, b).map(|inner| match inner.as_str() {
            "the value" => format!("`{name}`"),
            inner => format!("`{name}`, {inner}"),
        }),
        (None, None) => None,
    })
}
