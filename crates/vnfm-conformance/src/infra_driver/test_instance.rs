//! One instance on the VIM of a stand: its calls are counted, interrupted and recorded.

use super::test_bed::TestBed;
use async_trait::async_trait;
use futures_util::future::{self, Either};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, Convergence, Ownership, PortError, Recorded, Release, Replacement, ResourceChange,
    ResourcePlan, Vim, VimCall, VimLogin, VimSlot, Watcher,
};
use vnfm_types::VimConnectionInfo;

/// Timeout of any call on any VIM.
const CALL_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// An instance on the VIM of a stand.
pub(super) struct TestInstance {
    pub(super) stand: Arc<dyn TestBed>,
    pub(super) vim: CountingVim,
    pub(super) ownership: Ownership,
    pub(super) recorder: Recorder,
    pub(super) timeout: SignedDuration,
}

impl TestInstance {
    pub(super) fn new(stand: &Arc<dyn TestBed>) -> Self {
        let vim = CountingVim {
            login: Mutex::new((stand.login(), 1)),
            turns: AtomicUsize::new(0),
            cut_at: AtomicUsize::new(usize::MAX),
            cut: Mutex::default(),
        };
        let id = || uuid::Uuid::new_v4().to_string();
        let ownership = Ownership {
            installation_id: id(),
            tenant: "default".into(),
            instance_id: id(),
            op_id: id(),
        };
        Self {
            stand: stand.clone(),
            vim,
            ownership,
            recorder: Recorder::default(),
            timeout: CALL_TIMEOUT,
        }
    }

    pub(super) fn call(&self, clock: &'_ dyn vnfm_core::ports::Clock) -> Deadline {
        Deadline(clock.now() + self.timeout)
    }

    /// Creates the stand's instance, or adopts it.
    pub(super) async fn created(&self) -> Result<Recorded, PortError> {
        self.converged(&Convergence::create(&self.stand.what()))
            .await
    }

    /// Checks the target, and makes the change after a preview.
    pub(super) async fn converged(&self, change: &Convergence<'_>) -> Result<Recorded, PortError> {
        let (driver, clock) = (self.stand.driver(), self.stand.clock());
        driver.validate_request(change.target)?;
        let deadline = self.call(&*clock);
        let cx = self.cx(&*clock, &deadline);
        let preview = driver.preview(&cx, change).await?;
        driver.converge(&cx, change, &preview).await
    }

    /// What the driver says would happen.
    pub(super) async fn planned(
        &self,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let (driver, clock) = (self.stand.driver(), self.stand.clock());
        let deadline = self.call(&*clock);
        driver.plan(&self.cx(&*clock, &deadline), change).await
    }

    /// Replaces these VNFCs, without a preview.
    pub(super) async fn replaced(
        &self,
        current: &Recorded,
        vnfcs: Vec<String>,
    ) -> Result<Recorded, PortError> {
        let (driver, what, clock) = (self.stand.driver(), self.stand.what(), self.stand.clock());
        let replace = Replacement {
            vnfcs,
            with_storage: false,
        };
        let change = Convergence::update(current, &what).replacing(replace);
        let deadline = self.call(&*clock);
        driver
            .converge(&self.cx(&*clock, &deadline), &change, &Value::Null)
            .await
    }

    pub(super) async fn release(&self, handle: Value) -> Result<(), PortError> {
        self.released(&self.stand.what(), handle).await
    }

    /// Releases an instance that was created from `what`.
    pub(super) async fn released(&self, what: &Allocation, handle: Value) -> Result<(), PortError> {
        let (driver, clock) = (self.stand.driver(), self.stand.clock());
        let how = Release {
            handle,
            grace_seconds: Some(0),
            retained: Vec::new(),
        };
        driver
            .release(&self.cx(&*clock, &self.call(&*clock)), what, &how)
            .await
    }

    pub(super) async fn observed(&self, handle: &Value) -> Result<Recorded, PortError> {
        let (driver, what, clock) = (self.stand.driver(), self.stand.what(), self.stand.clock());
        driver
            .observe(&self.cx(&*clock, &self.call(&*clock)), &what, handle)
            .await
    }

    pub(super) fn cx<'a>(
        &'a self,
        clock: &'a dyn vnfm_core::ports::Clock,
        deadline: &Deadline,
    ) -> VimCall<'a> {
        VimCall {
            vim: &self.vim,
            ownership: &self.ownership,
            clock,
            watcher: &self.recorder,
            deadline: deadline.0,
        }
    }

    /// The instance's resources according to the driver.
    pub(super) async fn owned(&self) -> BTreeSet<String> {
        let id = &self.ownership.installation_id;
        let all = self.stand.driver().owned(&self.vim, id).await.unwrap();
        let foreign = |one: &&vnfm_core::ports::OwnedResource| {
            one.instance_id.as_ref() != Some(&self.ownership.instance_id)
        };
        assert_eq!(
            all.iter().find(foreign),
            None,
            "tagged as ours, but not with our instance"
        );
        all.into_iter()
            .map(|one| format!("{} {}", one.kind, one.id))
            .collect()
    }

    /// Checks that nothing of the instance is left, according to the driver and to the VIM itself.
    pub(super) async fn check_released(&self, before: &BTreeSet<String>) {
        assert_eq!(
            self.owned().await,
            BTreeSet::new(),
            "left according to the driver"
        );
        let after = resources_on_vim(&self.stand).await;
        let left: Vec<_> = after.difference(before).collect();
        assert!(left.is_empty(), "left on the VIM: {left:?}");
    }

    /// Runs `work` until it makes its `number`-th call, and drops it there; true if it was interrupted, false if it ended before.
    pub(super) async fn interrupt_at<T>(
        &self,
        number: usize,
        work: impl Future<Output = T>,
    ) -> bool {
        let (cut, was_cut) = tokio::sync::oneshot::channel();
        *self.vim.cut.lock().unwrap() = Some(cut);
        self.vim
            .cut_at
            .store(self.vim.turns.load(SeqCst) + number, SeqCst);
        let work = std::pin::pin!(work);
        let ended = future::select(work, was_cut).await;
        self.vim.cut_at.store(usize::MAX, SeqCst);
        matches!(ended, Either::Right(_))
    }
}

pub(super) struct Deadline(pub(super) jiff::Timestamp);

/// All resources on the VIM, inspected directly.
pub(super) async fn resources_on_vim(stand: &Arc<dyn TestBed>) -> BTreeSet<String> {
    stand.resources().await.into_iter().collect()
}

/// A VIM connection that counts and interrupts calls.
pub(super) struct CountingVim {
    login: Mutex<(VimConnectionInfo, u64)>,
    /// Number of slots that the driver requested.
    pub(super) turns: AtomicUsize,
    /// The first slot that is never granted.
    cut_at: AtomicUsize,
    cut: Mutex<Option<tokio::sync::oneshot::Sender<()>>>,
}

impl CountingVim {
    /// Changes the login, as `vim update` does.
    pub(super) fn set_login(&self, login: VimConnectionInfo) {
        let mut known = self.login.lock().unwrap();
        *known = (login, known.1 + 1);
    }
}

#[async_trait]
impl Vim for CountingVim {
    fn name(&self) -> &'static str {
        "the VIM of the contract"
    }
    fn connection_id(&self) -> &'static str {
        "vim1"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        let (info, version) = self.login.lock().unwrap().clone();
        Ok(VimLogin { info, version })
    }
    async fn acquire_slot(&self, _: &str, _: Option<&dyn Watcher>) -> VimSlot {
        let number = self.turns.fetch_add(1, SeqCst) + 1;
        if number >= self.cut_at.load(SeqCst) {
            if let Some(cut) = self.cut.lock().unwrap().take() {
                let _ = cut.send(()); // the receiver may have ended
            }
            return future::pending().await;
        }
        VimSlot::default()
    }
}

/// What the driver logged and reported.
#[derive(Default)]
pub(super) struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    pub(super) fn hear(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Watcher for Recorder {
    fn waiting(&self, what: &str) {
        self.hear(what.to_owned());
    }
    fn progress(&self, _: u8, message: &str) {
        self.hear(message.to_owned());
    }
    fn log(&self, _: &str, _: &str, text: &str) {
        self.hear(text.to_owned());
    }
}

/// VNFCs by id, with their resource on the VIM.
pub(super) fn vnfcs(allocation: &Recorded) -> BTreeSet<(String, String)> {
    let id = |vnfc: &vnfm_types::VnfcResourceInfo| {
        (vnfc.id.clone(), vnfc.compute_resource.resource_id.clone())
    };
    allocation
        .inventory
        .vnfc_resource_info
        .iter()
        .map(id)
        .collect()
}

/// Time in which any call must notice a passed deadline.
pub(super) const NOTICE_TIMEOUT: Duration = Duration::from_secs(30);
