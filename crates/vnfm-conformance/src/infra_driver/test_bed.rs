//! What an adapter provides to be tested: its driver, a VIM, and instances to create.

use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Clock, InfraDriver};
use vnfm_types::VimConnectionInfo;

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

    /// Whether a smaller size removes the last VNFCs of the inventory; false if the VIM itself chooses, as Kubernetes
    /// does for the pods of a Deployment.
    fn removes_last_vnfcs(&self) -> bool {
        true
    }

    /// All resources on the VIM that any driver may have created, by kind and id.
    async fn resources(&self) -> Vec<String>;

    /// Maximum number of points at which a call is interrupted and then resumed; use fewer if calls take long.
    fn max_interruptions(&self) -> usize {
        MAX_INTERRUPTIONS
    }
}

/// Default of [`TestBed::max_interruptions`]: points at which a call is interrupted.
pub const MAX_INTERRUPTIONS: usize = 12;
