//! The contract of infrastructure drivers. Each rule gets its own VIM, or its own instance on a shared one: nothing is assumed
//! about earlier contents of the VIM, and everything about what the test leaves there.

mod apart;
mod connections;
mod interrupted;
mod lifecycle;
mod links;
mod packages;
mod plan;
mod power;
mod replace;
mod resize;
mod snapshots;
mod test_bed;
mod test_instance;
mod volumes;

pub use test_bed::{Disks, MAX_INTERRUPTIONS, OnVim, ReadDisk, TestBed, WriteDisk};

use std::sync::Arc;

crate::rules! { Arc<dyn TestBed>:
    /// The driver lists its vimTypes, and accepts a valid connection.
    lifecycle::a_driver_lists_its_vim_types;
    /// `check` logs in and changes nothing; it identifies the same VIM each time.
    lifecycle::a_check_changes_nothing;
    /// A login that the VIM refuses is `Refused`, not `Unavailable`.
    lifecycle::a_wrong_login_is_refused;
    /// The connection is fetched from `Vim::connection` at each login, never cached: a change takes effect at the next call.
    lifecycle::a_changed_login_applies_to_the_next_call;
    /// Each call holds a slot (`Vim::turn`).
    lifecycle::each_call_holds_a_slot;
    /// `preview` looks up what only the VIM knows, and changes nothing.
    lifecycle::a_preview_changes_nothing;
    /// `preview` refuses what the VIM lacks, before anything is created.
    lifecycle::what_the_vim_lacks_is_refused;
    /// `plan` changes nothing, before a creation and after it.
    plan::a_plan_changes_nothing;
    /// A `plan` of what exists keeps every resource, and a repeated `converge` does.
    plan::a_plan_of_what_exists_keeps_everything;
    /// What a `plan` says of a creation, a replacement and a release happens; one that cannot tell says so.
    plan::what_a_plan_says_happens;
    /// What a `plan` says of another size happens.
    plan::what_a_plan_says_of_another_size_happens;
    /// Created resources exist, are reported with their ids, and are tagged with their owner; `release` deletes all of them.
    lifecycle::created_resources_are_tagged_and_released;
    /// `converge` is idempotent: a repeated creation adopts what exists.
    lifecycle::a_repeated_creation_creates_nothing_more;
    /// A creation that was interrupted at any point is completed by the next `converge`, which adopts existing resources.
    interrupted::an_interrupted_creation_is_adopted;
    /// A `release` without a handle, because `converge` was interrupted, finds the resources nevertheless.
    interrupted::a_partial_creation_is_released_without_a_handle;
    /// A `release` that was interrupted at any point is completed by the next one.
    interrupted::an_interrupted_release_is_completed;
    /// `release` of absent resources succeeds.
    lifecycle::a_release_of_nothing_succeeds;
    /// A resource with our name that another installation created is never touched.
    lifecycle::resources_of_another_installation_are_not_touched;
    /// `observe` changes nothing, and lists the existing resources.
    lifecycle::an_observation_changes_nothing;
    /// `converge` replaces the VNFCs that the change names and leaves the others unchanged: their ids stay.
    replace::only_the_named_vnfcs_are_replaced;
    /// `converge` is idempotent: what an earlier call has replaced is not replaced again.
    replace::a_repeated_replacement_replaces_nothing_more;
    /// A replacement that was interrupted at any point is completed by the next `converge`.
    replace::an_interrupted_replacement_is_completed;
    /// `converge` to another size adds or deletes just the VNFCs that differ: the others keep their ids and addresses.
    resize::a_change_of_size_keeps_the_other_vnfcs;
    /// A change of size that was interrupted at any point is completed by the next `converge`.
    resize::an_interrupted_change_of_size_is_completed;
    /// A change of size that was interrupted at any point is reversed by a `converge` to the size before: a rollback.
    resize::an_interrupted_change_of_size_is_reversed;
    /// `converge` to another package changes what differs, in batches if the driver rolls, and back again.
    packages::a_change_of_package_changes_what_differs_and_back;
    /// A change of package that was interrupted at any point is completed by the next `converge`.
    packages::an_interrupted_change_of_package_is_completed;
    /// A change of package that was interrupted at any point is reversed by a `converge` to the package before: a rollback.
    packages::an_interrupted_change_of_package_is_reversed;
    /// `converge` to other external links connects the VNFCs to them, and back again; the inventory lists the links with their
    /// ports.
    connections::a_change_of_links_connects_vnfcs_to_others_and_back;
    /// A change of links that was interrupted at any point is completed by the next `converge`, or reversed by one to the links
    /// before: a rollback.
    connections::an_interrupted_change_of_links_is_completed_or_reversed;
    /// A stopped instance has no running VNFC, and started again it has as many as before; VNFCs that exist meanwhile keep
    /// their ids and addresses. Holds if the driver offers `Power`.
    power::a_stopped_instance_is_started_again;
    /// `operate` is idempotent: a repeated call changes nothing.
    power::a_repeated_stop_and_start_changes_nothing;
    /// A stop that was interrupted at any point is completed by the next call, or reversed by a start.
    power::an_interrupted_stop_is_completed_or_reversed;
    /// A single VNFC can be stopped while the others run, if the driver says so.
    power::a_single_vnfc_is_stopped;
    /// `converge` leaves a stopped instance stopped: also VNFCs that it replaces or adds.
    power::a_change_leaves_a_stopped_instance_stopped;
    /// A snapshot changes nothing about the instance, and a return gives VNFCs what they had then: their ids stay, unless the
    /// VIM replaces VNFCs to give them their volumes. Holds if the driver offers `Snapshots`, as the next ones.
    snapshots::an_instance_returns_to_a_stored_state;
    /// `create` is idempotent, and `delete` succeeds if nothing exists.
    snapshots::a_repeated_creation_of_a_snapshot_stores_nothing_more;
    /// A snapshot outlives its instance; its resources, and what they need, are listed with it. What it stores of storages
    /// names those of the inventory. Where the VIM keeps volumes as long as they have snapshots, `release` is `Refused` and
    /// deletes nothing.
    snapshots::a_snapshot_outlives_its_instance;
    /// A snapshot that was interrupted at any point is completed by the next `create`, or deleted without a handle.
    snapshots::an_interrupted_snapshot_is_completed_or_deleted;
    /// A return that was interrupted at any point is completed by the next one.
    snapshots::an_interrupted_return_is_completed;
    /// What a plan says of a snapshot and of a return happens; it changes nothing.
    snapshots::what_a_plan_says_of_a_snapshot_happens;
    /// A shared virtual link exists once however often it is created, is listed with its id, and is deleted without touching
    /// another one of that name. Holds if the driver offers `Links`, as the next one.
    links::a_link_is_created_once_and_deleted;
    /// A creation or deletion of a link that was interrupted at any point is completed by the next call, or deleted.
    links::an_interrupted_link_is_completed_or_deleted;
    /// An empty volume exists once however often it is created, is listed with its id, and is deleted without touching another
    /// one. Holds if the driver offers `Volumes`, as the next one.
    volumes::an_empty_volume_is_created_once_and_deleted;
    /// A creation or deletion of an empty volume that was interrupted at any point is completed by the next call, or deleted
    /// although nobody has recorded its id.
    volumes::an_interrupted_empty_volume_is_completed_or_deleted;
    /// A call ends after its deadline, and leaves what it created for the next one.
    lifecycle::a_call_ends_at_its_deadline;
    /// No secret of the connection appears in an error or log line.
    lifecycle::no_secret_is_revealed;
}
