//! What an adapter provides to be tested: its driver, a VIM, and instances to create. [`OnVim`] serves most.

use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Clock, InfraDriver};
use vnfm_types::{LinkSpec, VimConnectionInfo, VolumeSpec};

/// A driver, its VIM, and direct access to the VIM.
#[async_trait]
pub trait TestBed: Send + Sync {
    /// The driver that the rules test.
    fn driver(&self) -> &dyn InfraDriver;

    /// The VIM's clock, simulated or real.
    fn clock(&self) -> Arc<dyn Clock>;

    /// A valid login. Members of its `accessInfo` longer than seven characters count as secrets,
    /// except `username`, `project` and `region`.
    fn login(&self) -> VimConnectionInfo;

    /// The same VIM with a login that it refuses; `None` if it accepts any login.
    fn wrong_login(&self) -> Option<VimConnectionInfo>;

    /// An instance to create; with at least two VNFCs if the driver can replace one of several.
    fn what(&self) -> Allocation;

    /// An instance that needs something the VIM lacks, such as an image; `None` if there is no such thing.
    fn infeasible_allocation(&self) -> Option<Allocation>;

    /// One instance in two sizes: the second has one VNFC more, and nothing else differs. `None` if the driver cannot
    /// change the size of an instance.
    fn sizes(&self) -> Option<[Allocation; 2]>;

    /// One instance of two packages, of which the second is the next release of the first. `None` if the driver cannot
    /// change the package of an instance.
    fn releases(&self) -> Option<[Allocation; 2]> {
        None
    }

    /// One instance whose external virtual links name one network or another. `None` if the driver cannot change them.
    fn links(&self) -> Option<[Allocation; 2]> {
        None
    }

    /// Whether a smaller size removes the last VNFCs of the inventory; false if the VIM itself chooses, as Kubernetes
    /// does for the pods of a Deployment.
    fn removes_last_vnfcs(&self) -> bool {
        true
    }

    /// All resources on the VIM that any driver may have created, by kind and id.
    async fn resources(&self) -> Vec<String>;

    /// Ids on the VIM of the servers or pods that run; needed if the driver offers
    /// [`Power`](vnfm_core::ports::Power).
    async fn running(&self) -> Vec<String>;

    /// Whether a return to a snapshot keeps the VNFCs; false if the VIM replaces them to give them their volumes, as
    /// Kubernetes does with pods.
    fn keeps_vnfcs_on_return(&self) -> bool {
        true
    }

    /// Whether the VIM keeps volumes as long as they have snapshots: then an instance with snapshots is not released.
    fn snapshots_hold_volumes(&self) -> bool {
        false
    }

    /// The disks of VNFCs, to check what a return restores; `None`: they cannot be read from outside.
    fn disks(&self) -> Option<&Disks> {
        None
    }

    /// A shared virtual link to create; `None`: the VIM can have none.
    fn link(&self) -> Option<LinkSpec> {
        None
    }

    /// An empty volume to create; `None`: the VIM can have none.
    fn volume(&self) -> Option<VolumeSpec> {
        None
    }

    /// Maximum number of points at which a call is interrupted and then resumed; use fewer if calls take long.
    fn max_interruptions(&self) -> usize {
        MAX_INTERRUPTIONS
    }
}

/// Default of [`TestBed::max_interruptions`]: points at which a call is interrupted.
pub const MAX_INTERRUPTIONS: usize = 12;

/// Reads the text on the disk of a resource.
pub type ReadDisk = dyn Fn(&str) -> Option<String> + Send + Sync;
/// Replaces the text on the disk of a resource.
pub type WriteDisk = dyn Fn(&str, &str) + Send + Sync;

/// Access to the disk of a VNFC, by the id of its resource on the VIM: what runs inside has it.
pub struct Disks {
    /// The text on the disk.
    pub read: Box<ReadDisk>,
    /// Replaces the text on the disk.
    pub write: Box<WriteDisk>,
}

/// A driver and its VIM, as values.
pub struct OnVim<D> {
    /// The driver that the contract tests.
    pub driver: D,
    /// The VIM's clock, simulated or real.
    pub clock: Arc<dyn Clock>,
    /// A login that the VIM accepts.
    pub login: VimConnectionInfo,
    /// The same VIM with a login that it refuses; `None` if it accepts any.
    pub wrong_login: Option<VimConnectionInfo>,
    /// The instance that the rules create.
    pub what: Allocation,
    /// An instance that needs what the VIM lacks; `None` if it lacks nothing.
    pub infeasible: Option<Allocation>,
    /// One instance in two sizes; `None` if the driver cannot resize.
    pub sizes: Option<[Allocation; 2]>,
    /// One instance in two releases; `None` if the driver cannot change the package.
    pub releases: Option<[Allocation; 2]>,
    /// One instance with two sets of external links; `None` if the driver cannot change them.
    pub links: Option<[Allocation; 2]>,
    /// Whether a smaller size removes the last VNFCs of the inventory.
    pub removes_last_vnfcs: bool,
    /// Whether a return to a snapshot keeps the VNFCs.
    pub keeps_vnfcs_on_return: bool,
    /// Whether the VIM keeps volumes as long as they have snapshots, and `what` has volumes.
    pub snapshots_hold_volumes: bool,
    /// Lists what is on the VIM, without the driver.
    pub resources: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Lists the servers or pods that run on the VIM, without the driver; empty unless it offers `Power`.
    pub running: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The disks of VNFCs; `None`: they cannot be read from outside.
    pub disks: Option<Disks>,
    /// A shared virtual link to create; `None`: the VIM can have none.
    pub link: Option<LinkSpec>,
    /// An empty volume to create; `None`: the VIM can have none.
    pub volume: Option<VolumeSpec>,
    /// Maximum number of points at which a call is interrupted.
    pub max_interruptions: usize,
}

impl<D> OnVim<D> {
    /// A VIM that accepts any login, lacks nothing and cannot resize; set the other members as far as yours differs.
    /// `resources` lists what is on the VIM without the driver.
    pub fn new(
        (driver, clock): (D, Arc<dyn Clock>),
        login: VimConnectionInfo,
        what: Allocation,
        resources: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            driver,
            clock,
            login,
            wrong_login: None,
            what,
            infeasible: None,
            sizes: None,
            releases: None,
            links: None,
            removes_last_vnfcs: true,
            keeps_vnfcs_on_return: true,
            snapshots_hold_volumes: false,
            resources: Box::new(resources),
            running: Box::new(Vec::new),
            disks: None,
            link: None,
            volume: None,
            max_interruptions: MAX_INTERRUPTIONS,
        }
    }
}

#[async_trait]
impl<D: InfraDriver> TestBed for OnVim<D> {
    fn driver(&self) -> &dyn InfraDriver {
        &self.driver
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
    fn login(&self) -> VimConnectionInfo {
        self.login.clone()
    }
    fn wrong_login(&self) -> Option<VimConnectionInfo> {
        self.wrong_login.clone()
    }
    fn what(&self) -> Allocation {
        self.what.clone()
    }
    fn infeasible_allocation(&self) -> Option<Allocation> {
        self.infeasible.clone()
    }
    fn sizes(&self) -> Option<[Allocation; 2]> {
        self.sizes.clone()
    }
    fn releases(&self) -> Option<[Allocation; 2]> {
        self.releases.clone()
    }
    fn links(&self) -> Option<[Allocation; 2]> {
        self.links.clone()
    }
    fn removes_last_vnfcs(&self) -> bool {
        self.removes_last_vnfcs
    }
    fn keeps_vnfcs_on_return(&self) -> bool {
        self.keeps_vnfcs_on_return
    }
    fn snapshots_hold_volumes(&self) -> bool {
        self.snapshots_hold_volumes
    }
    async fn resources(&self) -> Vec<String> {
        (self.resources)()
    }
    async fn running(&self) -> Vec<String> {
        (self.running)()
    }
    fn disks(&self) -> Option<&Disks> {
        self.disks.as_ref()
    }
    fn link(&self) -> Option<LinkSpec> {
        self.link.clone()
    }
    fn volume(&self) -> Option<VolumeSpec> {
        self.volume.clone()
    }
    fn max_interruptions(&self) -> usize {
        self.max_interruptions
    }
}
