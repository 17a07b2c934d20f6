//! What an infrastructure driver has to keep to. Each rule gets a VIM of its own, or an instance of its own on one that
//! others use: nothing is expected of what was there before, and everything of what is there afterwards.

mod heal;
mod interrupted;
mod making;
mod place;

use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Clock, InfraDriver};
use vnfm_types::VimConnectionInfo;

/// A driver, a VIM, and a way to look at the VIM past the driver.
#[async_trait]
pub trait Stand: Send + Sync {
    /// The driver.
    fn driver(&self) -> &dyn InfraDriver;

    /// Time as the VIM has it.
    fn clock(&self) -> Arc<dyn Clock>;

    /// A login that works. Members of its `accessInfo` that are longer than seven characters are taken for secrets,
    /// but for `username`, `project` and `region`.
    fn login(&self) -> VimConnectionInfo;

    /// The same VIM by a login that it refuses; `None` where it lets everybody in.
    fn wrong_login(&self) -> Option<VimConnectionInfo>;

    /// An instance to make. With two VNFCs at least, where the driver heals one of several.
    fn what(&self) -> Allocation;

    /// One that lacks something that only the VIM knows, such as an image; `None` where there is no such thing.
    fn impossible(&self) -> Option<Allocation>;

    /// Everything on the VIM that a driver may have made, whoever did, by kind and id.
    async fn things(&self) -> Vec<String>;

    /// At how many places of a call, at most, it is cut off to be gone on with; fewer where each takes long.
    fn places(&self) -> usize {
        PLACES
    }
}

/// At how many places of a call it is cut off, where a stand does not say otherwise.
pub const PLACES: usize = 12;

crate::rules! { Arc<dyn Stand>:
    /// A driver serves vimTypes, and says nothing against a connection that works.
    making::a_driver_says_what_it_serves;
    /// `check` logs in and changes nothing; it finds the same VIM each time.
    making::a_check_changes_nothing;
    /// A login that the VIM does not take is `Refused`, not `Unavailable`.
    making::a_wrong_login_is_refused;
    /// The connection is asked from `Vim::connection` at each login, never kept: what changes it reaches the next call.
    making::a_login_that_changes_counts_at_the_next_call;
    /// Each call is made during a turn (`Vim::turn`).
    making::each_call_is_made_during_a_turn;
    /// `prepare` looks up what only the VIM knows, and changes nothing.
    making::a_preparation_changes_nothing;
    /// What the VIM lacks is refused by `prepare`, before anything is made.
    making::what_the_vim_lacks_is_refused;
    /// What is made is there, is told with its ids, and says whose it is; `release` takes away all of it.
    making::what_is_made_is_ours_and_goes;
    /// `allocate` twice is `allocate` once.
    making::an_allocation_that_is_repeated_makes_nothing_more;
    /// An `allocate` that ended anywhere on its way is gone on with by the next: it adopts what there is.
    interrupted::an_allocation_that_was_interrupted_is_adopted;
    /// A `release` that does not know what was made, because `allocate` was interrupted, finds it nevertheless.
    interrupted::what_was_half_made_is_released_without_a_handle;
    /// A `release` that ended anywhere on its way is gone on with by the next.
    interrupted::a_release_that_was_interrupted_goes_on;
    /// `release` of what is not there succeeds.
    making::a_release_of_nothing_succeeds;
    /// A thing with our name that another installation made is never touched.
    making::what_another_installation_made_is_not_touched;
    /// `observe` changes nothing, and lists what exists.
    making::an_observation_changes_nothing;
    /// `heal` replaces the VNFCs that it names and leaves the others as they are: their ids stay.
    heal::a_heal_replaces_what_it_names_alone;
    /// `heal` twice is `heal` once: what the first has replaced is not replaced again.
    heal::a_heal_that_is_repeated_replaces_nothing_more;
    /// A `heal` that ended anywhere on its way is gone on with by the next.
    heal::a_heal_that_was_interrupted_goes_on;
    /// A call whose deadline has passed ends, and leaves what it made for the next.
    making::a_call_ends_at_its_deadline;
    /// No secret of the connection is in an error or in what is logged.
    making::no_secret_is_told;
}
