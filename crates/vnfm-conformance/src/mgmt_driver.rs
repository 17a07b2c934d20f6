//! The contract of `MgmtDriver`s, however they are implemented: libraries, processes, plain Rust objects. One hook of one
//! driver is run repeatedly, on hosts that the stand simulates, with every host call failing once.

use async_trait::async_trait;
use futures_util::future::{self, Either, select};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use vnfm_core::ports::{
    Code, Declaration, Effects, ErrorKind, HookCall, HookDriverRef, HookHost, HookRequest,
    MgmtDriver, MgmtDrivers, PortError,
};

/// `MgmtDriver`s, a hook of one of them, and its hosts.
#[async_trait]
pub trait TestBed: Send + Sync {
    /// The drivers that the rules test.
    fn drivers(&self) -> &dyn MgmtDrivers;

    /// How a VNFD names the driver to test.
    fn named(&self) -> HookDriverRef<'_>;

    /// The request for its hook, with enough time until the deadline. The same each time.
    fn request(&self) -> HookRequest;

    /// Serves a call to a host, such as `ssh.run`, or for a file of the package. Calls that the engine serves itself
    /// (checkpoints, progress, sleep) do not get here.
    ///
    /// # Errors
    ///
    /// The error of the host.
    async fn answer(&self, service: &str, request: Value) -> Result<Value, PortError>;

    /// Secrets that must not be revealed: in the request's parameters, and in responses of hosts.
    fn secrets(&self) -> Vec<String>;
}

crate::rules! { Arc<dyn TestBed>:
    /// A driver that a VNFD names is found, and is listed with the same declaration.
    tried::a_named_driver_is_found_and_listed;
    /// An unknown driver is refused, naming it.
    tried::an_unknown_driver_is_refused_by_name;
    /// A declaration has a name, a version of three numbers, at least one hook, and valid JSON Schemas.
    tried::a_declaration_is_complete;
    /// A hook that is not declared is refused, and nothing is done.
    tried::an_undeclared_hook_is_refused;
    /// A hook is idempotent: a second run has the same effects.
    tried::a_repeated_hook_has_the_same_effects;
    /// A hook with a failing host call, at any point, ends; run again, it succeeds with the same effects.
    tried::a_hook_recovers_from_a_failed_call;
    /// A hook that is dropped, at any point, stops; run again, it succeeds with the same effects.
    tried::a_hook_recovers_from_being_dropped;
    /// A hook that declares `undo` can be undone, repeatedly, and run again after that.
    tried::a_hook_with_undo_can_be_undone;
    /// No secret appears in an error, log line, progress message or reason for waiting.
    tried::no_secret_is_revealed;
}

const CUT: Code = Code {
    name: "contract.cut",
    kind: ErrorKind::Unavailable,
    means: "the host of the contract does not serve this call",
    next: "run the hook again",
};

/// The engine's side of a hook, without an engine.
struct Host {
    stand: Arc<dyn TestBed>,
    remembered: Mutex<BTreeMap<String, Value>>,
    revealed: Mutex<Vec<String>>,
    calls: Mutex<usize>,
    fails_at: Mutex<Option<usize>>,
    hangs_at: Mutex<Option<(usize, Option<tokio::sync::oneshot::Sender<()>>)>>,
}

impl Host {
    fn new(stand: &Arc<dyn TestBed>) -> Arc<Self> {
        Arc::new(Self {
            stand: stand.clone(),
            remembered: Mutex::default(),
            revealed: Mutex::default(),
            calls: Mutex::default(),
            fails_at: Mutex::default(),
            hangs_at: Mutex::default(),
        })
    }

    /// Counts a call to a host, and fails or hangs if it is the chosen one.
    async fn counted(&self) -> Result<(), PortError> {
        let number = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        if self
            .fails_at
            .lock()
            .unwrap()
            .take_if(|at| *at == number)
            .is_some()
        {
            return Err(PortError::new(
                &CUT,
                format!("serve call {number}"),
                "failed on purpose",
            ));
        }
        let hung = match &mut *self.hangs_at.lock().unwrap() {
            Some((at, hung)) if *at == number => hung.take(),
            _ => None,
        };
        if let Some(hung) = hung {
            let _ = hung.send(()); // the receiver may have ended
            future::pending::<()>().await;
        }
        Ok(())
    }

    fn record(&self, text: String) {
        self.revealed.lock().unwrap().push(text);
    }
}

#[async_trait]
impl HookHost for Host {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        Ok(match HookCall::parse(service, request.clone())? {
            HookCall::Recall(key) => {
                json!({"value": self.remembered.lock().unwrap().get(&key).cloned()})
            }
            HookCall::Remember(key, value) => {
                self.counted().await?;
                self.remembered.lock().unwrap().insert(key, value);
                json!({})
            }
            HookCall::Irreversible(reason) => {
                self.counted().await?;
                self.record(reason);
                json!({})
            }
            HookCall::Progress(_, message) => {
                self.record(message);
                json!({})
            }
            HookCall::Waiting(what) => {
                self.record(what);
                json!({})
            }
            HookCall::Sleep(_) => json!({}),
            HookCall::Cancelled => json!({"cancelled": false}),
            _ => {
                self.counted().await?;
                self.stand.answer(service, request).await?
            }
        })
    }

    fn log(&self, _: &str, text: &str) {
        self.record(text.to_owned());
    }
}

/// A driver under test, with its own host.
struct Trial {
    driver: Arc<dyn MgmtDriver>,
    request: HookRequest,
    host: Arc<Host>,
}

impl Trial {
    fn on(stand: &Arc<dyn TestBed>) -> Self {
        Self {
            driver: found(stand),
            request: stand.request(),
            host: Host::new(stand),
        }
    }

    async fn run(&self) -> Result<Effects, PortError> {
        let outcome = self
            .driver
            .call(self.request.clone(), self.host.clone())
            .await;
        if let Err(error) = &outcome {
            self.host.record(format!("{error} {}", error.next()));
        }
        outcome
    }

    fn for_undo(&self) -> Self {
        let mut request = self.request.clone();
        request.undo = true;
        Self {
            driver: self.driver.clone(),
            request,
            host: self.host.clone(),
        }
    }
}

fn found(stand: &Arc<dyn TestBed>) -> Arc<dyn MgmtDriver> {
    stand.drivers().resolve(&stand.named()).unwrap()
}

/// The effects of an undisturbed hook, and its number of host calls.
async fn undisturbed(stand: &Arc<dyn TestBed>) -> (Effects, usize) {
    let once = Trial::on(stand);
    let effects = once.run().await.unwrap();
    let calls = *once.host.calls.lock().unwrap();
    (effects, calls)
}

mod tried {
    use super::{Arc, Declaration, Either, TestBed, Trial, found, pin, select, undisturbed};
    use serde_json::json;
    use vnfm_core::ports::ErrorKind;
    use vnfm_schema::schema_violations;

    type Shared = Arc<dyn TestBed>;

    pub(super) async fn a_named_driver_is_found_and_listed(stand: Shared) {
        let driver = found(&stand);
        let declaration: &Declaration = driver.declaration();
        assert!(
            stand.drivers().list().contains(declaration),
            "`{}` is not listed with this declaration",
            declaration.name
        );
        let began = driver.id();
        let again = stand.drivers().resolve(&stand.named().exact(&began));
        assert_eq!(
            again.unwrap().id(),
            driver.id(),
            "an operation must continue with the driver it began with"
        );
    }

    pub(super) async fn an_unknown_driver_is_refused_by_name(stand: Shared) {
        let nowhere = stand.drivers().resolve(&"no-such-driver-anywhere".into());
        let Err(error) = nowhere else {
            panic!("an unknown driver was found")
        };
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(
            error.to_string().contains("no-such-driver-anywhere"),
            "{error}"
        );
    }

    pub(super) async fn a_declaration_is_complete(stand: Shared) {
        let driver = found(&stand);
        let declaration = driver.declaration();
        assert!(
            !declaration.name.is_empty() && !declaration.hooks.is_empty(),
            "{declaration:?}"
        );
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let numbers: Vec<_> = declaration
            .version
            .split(['-', '+'])
            .next()
            .unwrap()
            .split('.')
            .collect();
        assert!(
            numbers.len() == 3 && numbers.iter().all(|n| number(n)),
            "`{}`",
            declaration.version
        );
        assert!(
            declaration.hooks.contains_key(&stand.request().hook),
            "the hook under test is not declared"
        );
        let schemas = declaration
            .hooks
            .values()
            .filter_map(|hook| hook.parameters.as_ref());
        for schema in schemas.chain(&declaration.config_schema) {
            schema_violations(schema, &json!({}), "parameters").unwrap();
        }
    }

    pub(super) async fn an_undeclared_hook_is_refused(stand: Shared) {
        let mut tried = Trial::on(&stand);
        tried.request.hook = "no_such_hook".into();
        tried.run().await.expect_err("an undeclared hook was run");
        assert_eq!(*tried.host.calls.lock().unwrap(), 0, "it called a host");
    }

    pub(super) async fn a_repeated_hook_has_the_same_effects(stand: Shared) {
        let tried = Trial::on(&stand);
        let once = tried.run().await.unwrap();
        assert!(
            tried.run().await.unwrap() == once,
            "different effects the second time"
        );
    }

    pub(super) async fn a_hook_recovers_from_a_failed_call(stand: Shared) {
        let (effects, calls) = undisturbed(&stand).await;
        for number in 1..=calls {
            let tried = Trial::on(&stand);
            *tried.host.fails_at.lock().unwrap() = Some(number);
            // The hook may recover by itself.
            let _ = tried.run().await;
            let again = tried.run().await;
            let again = again.unwrap_or_else(|error| panic!("after call {number} failed: {error}"));
            assert!(
                again == effects,
                "different effects after call {number} failed"
            );
        }
    }

    pub(super) async fn a_hook_recovers_from_being_dropped(stand: Shared) {
        let (effects, calls) = undisturbed(&stand).await;
        for number in 1..=calls {
            let tried = Trial::on(&stand);
            let (hung, hangs) = tokio::sync::oneshot::channel();
            *tried.host.hangs_at.lock().unwrap() = Some((number, Some(hung)));
            let is_cut = {
                let running = pin!(tried.run());
                matches!(select(running, hangs).await, Either::Right(_))
            };
            assert!(is_cut, "it did not reach call {number}");
            let again = tried.run().await;
            let again = again.unwrap_or_else(|error| panic!("dropped at call {number}: {error}"));
            assert!(
                again == effects,
                "different effects after it was dropped at call {number}"
            );
        }
    }

    pub(super) async fn a_hook_with_undo_can_be_undone(stand: Shared) {
        let tried = Trial::on(&stand);
        let hook = &tried.driver.declaration().hooks[&tried.request.hook];
        if !hook.undo {
            return;
        }
        let done = tried.run().await.unwrap();
        for _ in 0..2 {
            tried.for_undo().run().await.unwrap();
        }
        // As in the engine, where a retry after a rollback starts from scratch.
        tried.host.remembered.lock().unwrap().clear();
        assert!(
            tried.run().await.unwrap() == done,
            "different effects after it was undone"
        );
    }

    pub(super) async fn no_secret_is_revealed(stand: Shared) {
        let (_, calls) = undisturbed(&stand).await;
        for number in 0..=calls {
            let tried = Trial::on(&stand);
            *tried.host.fails_at.lock().unwrap() = Some(number);
            let _ = tried.run().await; // only what it reveals matters, not how it ends
            for secret in stand.secrets() {
                let texts = tried.host.revealed.lock().unwrap().clone();
                let leak = texts.into_iter().find(|text| text.contains(&secret));
                assert_eq!(
                    leak.map(|text| text.replace(&secret, "[it]")),
                    None,
                    "call {number}"
                );
            }
        }
    }
}
