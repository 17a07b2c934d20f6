//! The contract of stores. Each rule gets an empty store.

mod instances;
mod leases;
mod links;
mod lists;
mod notifications;
mod ops;
pub mod records;
mod schedules;
mod snapshots;
mod vims;
mod visibility;
mod volumes;

use std::sync::Arc;
use vnfm_core::ports::Store;

crate::rules! { Arc<dyn Store>:
    /// An instance is read back as it was written; ids are unique.
    instances::an_instance_is_read_as_it_was_written;
    /// A tenant's data cannot be read, listed or removed by another tenant.
    instances::another_tenant_sees_nothing;
    /// Writing an instance requires the version that was read; only operations change its active operation.
    instances::an_instance_written_from_an_old_version_is_refused;
    /// What happens when a step fails is set at any time, and only by its own change.
    instances::only_its_own_change_sets_what_happens_on_failure;
    /// An instance requires an existing package.
    instances::an_instance_needs_its_package;
    /// An instance is removed only without resources and active operation; the history of its operations stays.
    instances::an_instance_with_resources_or_an_operation_is_not_removed;
    /// Of concurrent operations on one instance exactly one is accepted.
    ops::of_sixteen_operations_at_once_one_begins;
    /// An operation is written only from its current state.
    ops::an_operation_is_written_only_from_its_current_state;
    /// A rollback is ruled out while the operation is PROCESSING, by the first step that does so; no later write of the
    /// operation takes it back.
    ops::a_rollback_that_was_ruled_out_stays_so;
    /// Of two concurrent state changes of an operation exactly one succeeds.
    ops::of_two_concurrent_state_changes_one_succeeds;
    /// A journal row records which processes ran the step; it is listed while it has no end, or if the step killed a process.
    ops::a_step_keeps_which_processes_ran_it;
    /// An orderly exit of a process is recorded for one of its operations, or for all of them, and for no others.
    ops::an_orderly_exit_is_recorded;
    /// A final state frees the instance in the same write.
    ops::an_ended_operation_frees_its_instance;
    /// An operation keeps its deployments until it is final: a retry or a rollback needs them.
    ops::an_ended_operation_keeps_no_deployment;
    /// A list of changes is written completely or not at all.
    instances::a_list_of_changes_is_written_completely_or_not_at_all;
    /// A journal row keeps the failures of a step that is repeated, until it is written without them.
    ops::a_step_keeps_its_failures;
    /// Journal rows keep the order of their first write, and their outputs.
    ops::the_journal_keeps_its_order_and_its_outputs;
    /// A checkpoint is stored by operation, step and key.
    ops::a_checkpoint_is_stored_by_operation_step_and_key;
    /// The checkpoints of one step can be deleted; those of others stay.
    ops::checkpoints_are_deleted_by_step;
    /// A cancel request reaches the driving process; a forceful one is not downgraded, and it ends when the operation is no longer driven.
    leases::a_cancel_request_reaches_the_driving_process;
    /// An operation with a valid lease cannot be claimed; the oldest one without comes first.
    leases::a_held_operation_is_not_claimed;
    /// Of concurrent claims of one operation exactly one succeeds.
    leases::of_eight_claims_of_one_operation_one_wins;
    /// A lease that is not renewed expires, and its former holder cannot renew it.
    leases::a_lease_that_is_not_renewed_ends;
    /// A process that lost its lease writes nothing.
    leases::a_lost_lease_allows_no_writes;
    /// An operation in FAILED_TEMP is not claimed; after the operator's decision it can be claimed at once.
    leases::an_operation_that_waits_for_a_decision_is_not_claimed;
    /// A revoked lease allows no more writes; revoking a valid lease needs force.
    leases::a_revoked_lease_allows_no_writes;
    /// A cluster on which other instances live cannot be marked as leaving, except by an operation that terminates them, too; the
    /// error names them.
    vims::a_cluster_in_use_is_not_retired;
    /// A cluster marked as leaving gets no new instance.
    vims::a_retired_cluster_gets_no_instances;
    /// A cluster is the same under every registration, and for inline connections.
    vims::the_same_cluster_under_another_name_counts;
    /// An instance of another tenant counts, but is not identified.
    vims::a_user_of_another_tenant_counts_and_is_not_named;
    /// Of a new instance on a cluster and the deletion of that cluster exactly one is accepted.
    vims::of_concurrent_use_and_retirement_one_is_accepted;
    /// An identity of a VIM that is learned later also applies to instances already living there.
    vims::an_identity_that_is_learned_later_is_kept;
    /// Ids and names of VIMs are unique per tenant.
    vims::ids_and_names_of_vims_are_unique;
    /// Writing a VIM requires the version that was read.
    vims::a_vim_written_from_an_old_version_is_refused;
    /// Removing a VIM with instances needs force; removing an absent one succeeds.
    vims::a_vim_in_use_is_removed_only_by_force;
    /// A shared VIM is visible to all tenants, and stays shared while others live on it; a tenant's own VIM takes precedence.
    vims::a_shared_vim_is_seen_by_all;
    /// A VNFD belongs to one package of a tenant.
    instances::a_vnfd_belongs_to_one_package;
    /// A package with instances is in use, and cannot be removed.
    instances::a_package_in_use_is_not_removed;
    /// A package to which an active operation changes its instance is in use, too; such an operation needs that package.
    instances::the_next_package_of_an_operation_is_in_use;
    /// Notifications are numbered in the order of their transactions, without gaps, and are listed in that order.
    notifications::notifications_are_numbered_in_the_order_of_their_transactions;
    /// A process waiting for news is woken by a notification or a subscription, and can tell which it was.
    notifications::waiting_for_news_is_woken;
    /// A subscription gets only later notifications, stores its progress, and its login is omitted from lists.
    notifications::a_subscription_gets_only_later_notifications;
    /// A snapshot is read back as it was written; lists omit what is sealed.
    snapshots::a_snapshot_is_read_as_it_was_written;
    /// Writing or removing a snapshot requires the version that was read.
    snapshots::a_snapshot_written_from_an_old_version_is_refused;
    /// A snapshot is used by one operation until that has ended.
    snapshots::a_snapshot_is_used_by_one_operation;
    /// Only the operation that uses a snapshot fills it, and empties it.
    snapshots::only_its_operation_fills_a_snapshot;
    /// A VIM that has resources of a snapshot is not removed.
    snapshots::a_vim_with_snapshots_is_kept;
    /// A shared virtual link is read back as it was written, by id or name; a limited scope sees none.
    links::a_link_is_read_as_it_was_written;
    /// Writing a link requires the version that was read; removing an absent one succeeds.
    links::a_link_written_from_an_old_version_is_refused;
    /// A link is not deleted while instances use it, and one that is being deleted is not used.
    links::a_link_in_use_is_not_deleted;
    /// Of a new use of a link and its deletion exactly one is accepted.
    links::of_concurrent_use_and_deletion_one_is_accepted;
    /// A VIM that has shared virtual links is not removed.
    links::a_vim_with_links_is_kept;
    /// A retained volume is read back as it was first written; a limited scope sees none.
    volumes::a_volume_is_read_as_it_was_written;
    /// A retained volume has at most one user; while it has one it is neither deleted nor used by another instance.
    volumes::a_volume_has_one_user_and_is_then_not_deleted;
    /// Of a use of a retained volume and its deletion exactly one is accepted.
    volumes::of_concurrent_use_and_deletion_of_a_volume_one_is_accepted;
    /// A schedule is read back as it was written, and is listed when it is due or while its operation runs.
    schedules::a_schedule_is_read_as_it_was_written;
    /// Of two processes that take a turn of a schedule one succeeds.
    schedules::of_two_turns_of_a_schedule_one_is_written;
    /// A schedule is removed by itself, and with its instance.
    schedules::a_schedule_ends_with_its_instance;
    /// The end of a creation is recorded only of a volume that is still being created; its uses begin afterwards.
    volumes::a_creation_ends_once_unless_a_deletion_came_first;
    /// A VIM that has retained volumes is not removed.
    volumes::a_vim_with_volumes_is_kept;
    /// An abandoned instance is deleted with all its data, and leaves a tombstone until that is deleted.
    notifications::an_abandoned_instance_leaves_a_tombstone;
    /// Audit entries are numbered, and each tenant sees only its own.
    notifications::the_audit_is_numbered;
    /// The usage of each tenant is counted, and each tenant with any data is listed.
    notifications::usage_is_counted_per_tenant;
    /// A tenant sees numbers that count only its own notifications.
    notifications::a_tenant_sees_numbers_of_its_own_notifications;
    /// Usage and reservations together never exceed a quota; a refused list leaves nothing behind.
    notifications::a_quota_covers_usage_and_reservations;
    /// A log retains its newest 2000 lines of at most 4096 bytes.
    ops::a_log_keeps_its_newest_lines;
    /// The first host key of a host stays pinned until its instance is deleted.
    instances::the_first_host_key_stays_until_its_instance_goes;
    /// A host key belongs to one tenant and one VIM: others pin and see their own.
    instances::a_host_key_is_of_one_tenant_and_vim;
    /// Deleting a host key makes room for the next one of that host, and of no other.
    instances::a_forgotten_host_key_makes_room_for_the_next_one;
    /// Lists are paged in order of id, and omit sealed members.
    lists::lists_come_in_pages_in_order_of_id;
    /// A filter supports every operator on every type of value; several expressions on one list refer to the same entry.
    lists::a_filter_finds_by_every_operator_in_every_kind_of_value;
    /// A filter also matches computed attributes.
    lists::a_filter_finds_what_is_computed;
    /// A page begins after an id, so concurrent changes do not shift it.
    lists::concurrent_changes_do_not_shift_pages;
    /// Results equal those of `Filter::holds`, for thousands of filters.
    lists::results_match_the_filter;
    /// A limited scope sees only instances and operations of its vendors, VIMs and namespaces, in every list.
    visibility::instances_and_their_operations_are_seen_by_vendor_vim_and_namespace;
    /// A limited scope does not see operations that ran elsewhere, even after their instance left there.
    visibility::operations_that_ran_elsewhere_stay_out_of_sight;
    /// A limited scope sees packages of its vendors, and subscriptions created in the same scope.
    visibility::packages_and_subscriptions_are_scoped;
    /// A limited scope sees snapshots created in the same scope.
    visibility::snapshots_are_scoped;
}
