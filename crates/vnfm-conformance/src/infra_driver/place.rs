//! One instance on the VIM of a stand: calls that are counted, cut off, and listened to.

use super::Stand;
use async_trait::async_trait;
use futures_util::future::{self, Either};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vnfm_core::ports::{
    Allocated, Ownership, PortError, Release, Repair, SecretConnection, Turn, Vim, VimCall,
    VimLogin, Watcher,
};
use vnfm_types::VimConnectionInfo;

/// How long any call may take, on any VIM.
const LONG: SignedDuration = SignedDuration::from_mins(15);

/// An instance on the VIM of a stand.
pub(super) struct Place {
    pub(super) stand: Arc<dyn Stand>,
    pub(super) vim: Wire,
    pub(super) ownership: Ownership,
    pub(super) heard: Heard,
    pub(super) patience: SignedDuration,
}

impl Place {
    pub(super) fn new(stand: &Arc<dyn Stand>) -> Self {
        let vim = Wire {
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
            heard: Heard::default(),
            patience: LONG,
        }
    }

    pub(super) fn call(&self, clock: &'_ dyn vnfm_core::ports::Clock) -> Deadline {
        Deadline(clock.now() + self.patience)
    }

    pub(super) async fn made(&self) -> Result<Allocated, PortError> {
        let (driver, what, clock) = (self.stand.driver(), self.stand.what(), self.stand.clock());
        driver.validate_request(&what)?;
        let deadline = self.call(&*clock);
        let prepared = driver.prepare(&self.cx(&*clock, &deadline), &what).await?;
        driver
            .allocate(&self.cx(&*clock, &deadline), &what, &prepared)
            .await
    }

    pub(super) async fn released(&self, handle: Value) -> Result<(), PortError> {
        let (driver, what, clock) = (self.stand.driver(), self.stand.what(), self.stand.clock());
        let how = Release {
            handle,
            grace_seconds: Some(0),
        };
        driver
            .release(&self.cx(&*clock, &self.call(&*clock)), &what, &how)
            .await
    }

    pub(super) async fn seen(&self, handle: &Value) -> Result<Allocated, PortError> {
        let (driver, what, clock) = (self.stand.driver(), self.stand.what(), self.stand.clock());
        driver
            .observe(&self.cx(&*clock, &self.call(&*clock)), &what, handle)
            .await
    }

    pub(super) async fn healed(
        &self,
        made: &Allocated,
        vnfcs: Vec<String>,
    ) -> Result<Allocated, PortError> {
        let (driver, what, clock) = (self.stand.driver(), self.stand.what(), self.stand.clock());
        let (handle, inventory) = (made.handle.clone(), made.inventory.clone());
        let repair = Repair {
            handle,
            inventory,
            vnfcs,
            with_storage: false,
        };
        driver
            .heal(&self.cx(&*clock, &self.call(&*clock)), &what, &repair)
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
            watcher: &self.heard,
            deadline: deadline.0,
        }
    }

    /// What of the instance is on the VIM by the word of the driver, in whatever order.
    pub(super) async fn owned(&self) -> BTreeSet<String> {
        let id = &self.ownership.installation_id;
        let all = self.stand.driver().owned(&self.vim, id).await.unwrap();
        let strange = |one: &&vnfm_core::ports::OwnedResource| {
            one.instance_id.as_ref() != Some(&self.ownership.instance_id)
        };
        assert_eq!(
            all.iter().find(strange),
            None,
            "it is ours, and of no instance of ours"
        );
        all.into_iter()
            .map(|one| format!("{} {}", one.kind, one.id))
            .collect()
    }

    /// Nothing of the instance is left, by the word of the driver and by a look past it.
    pub(super) async fn is_gone(&self, before: &BTreeSet<String>) {
        assert_eq!(
            self.owned().await,
            BTreeSet::new(),
            "left by the driver's word"
        );
        let after = things(&self.stand).await;
        let left: Vec<_> = after.difference(before).collect();
        assert!(left.is_empty(), "left on the VIM: {left:?}");
    }

    /// Runs `work` until it makes its call number `number` from now, and drops it there; true where it was cut off, and
    /// did not end before.
    pub(super) async fn cut_off<T>(&self, number: usize, work: impl Future<Output = T>) -> bool {
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

/// Everything on the VIM, looked at past the driver.
pub(super) async fn things(stand: &Arc<dyn Stand>) -> BTreeSet<String> {
    stand.things().await.into_iter().collect()
}

/// The way to the VIM.
pub(super) struct Wire {
    login: Mutex<(VimConnectionInfo, u64)>,
    /// Turns that were asked for.
    pub(super) turns: AtomicUsize,
    /// The turn that nobody gets any more.
    cut_at: AtomicUsize,
    cut: Mutex<Option<tokio::sync::oneshot::Sender<()>>>,
}

impl Wire {
    /// What `vim update` does.
    pub(super) fn now_by(&self, login: VimConnectionInfo) {
        let mut known = self.login.lock().unwrap();
        *known = (login, known.1 + 1);
    }
}

#[async_trait]
impl Vim for Wire {
    fn name(&self) -> &'static str {
        "the VIM of the contract"
    }
    fn connection_id(&self) -> &'static str {
        "vim1"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        let (info, version) = self.login.lock().unwrap().clone();
        Ok(VimLogin {
            info: SecretConnection(info),
            version,
        })
    }
    async fn turn(&self, _: &str, _: Option<&dyn Watcher>) -> Turn {
        let number = self.turns.fetch_add(1, SeqCst) + 1;
        if number >= self.cut_at.load(SeqCst) {
            if let Some(cut) = self.cut.lock().unwrap().take() {
                let _ = cut.send(()); // whoever waits for it may have ended
            }
            return future::pending().await;
        }
        Turn::default()
    }
}

/// What the driver said.
#[derive(Default)]
pub(super) struct Heard(Mutex<Vec<String>>);

impl Heard {
    pub(super) fn hear(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Watcher for Heard {
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

/// VNFCs by their ids, and what each is on the VIM.
pub(super) fn vnfcs(made: &Allocated) -> BTreeSet<(String, String)> {
    let id = |vnfc: &vnfm_types::VnfcResourceInfo| {
        (vnfc.id.clone(), vnfc.compute_resource.resource_id.clone())
    };
    made.inventory.vnfc_resource_info.iter().map(id).collect()
}

/// Long enough for whoever only has to notice that it is late.
pub(super) const SOON: Duration = Duration::from_secs(30);
