//! What a store has to keep to. Each rule gets a store with nothing in it.

mod instances;
mod leases;
mod lists;
mod ops;
pub mod records;
mod sight;
mod told;
mod vims;

use std::sync::Arc;
use vnfm_core::ports::Store;

crate::rules! { Arc<dyn Store>:
    /// An instance is read as it was written; an id is given once.
    instances::an_instance_is_read_as_it_was_written;
    /// Nothing of a tenant is seen, listed or removed by another one.
    instances::another_tenant_sees_nothing;
    /// An instance is written from the version that it was read in, its active operation by operations alone.
    instances::an_instance_written_from_an_old_version_is_refused;
    /// An instance is of a package that is there.
    instances::an_instance_needs_its_package;
    /// An instance goes only without resources and without an operation; the history of its operations stays.
    instances::an_instance_with_resources_or_an_operation_is_not_removed;
    /// Of operations that begin at once on one instance exactly one is accepted.
    ops::of_sixteen_operations_at_once_one_begins;
    /// An operation is written from the state that it was in, or not at all.
    ops::an_operation_is_written_from_the_state_that_it_was_in;
    /// Of two ways on that race exactly one is taken.
    ops::of_two_ways_on_that_race_one_is_taken;
    /// A step keeps which processes ran it, and is found as long as it has no end, or where it killed one of them.
    ops::a_step_keeps_which_processes_ran_it;
    /// That a process leaves one operation in order, or all of its own, is known of those alone.
    ops::what_is_left_in_order_is_known;
    /// A final state frees the instance in the same write.
    ops::an_ended_operation_frees_its_instance;
    /// A list of changes is written as a whole, or nothing of it is.
    instances::a_list_of_changes_is_written_as_a_whole_or_not_at_all;
    /// A journal's rows keep the place of their first writing, and their outputs.
    ops::the_journal_keeps_its_order_and_its_outputs;
    /// What a hook remembers is kept by operation, step and key.
    ops::a_checkpoint_is_remembered_by_operation_step_and_key;
    /// What the hook of one step remembers can be forgotten; that of others stays.
    ops::what_a_step_remembers_is_forgotten_alone;
    /// A wish to cancel reaches whoever drives; a forceful one is not taken back, and it ends with the driving.
    leases::a_wish_to_cancel_reaches_whoever_drives;
    /// What somebody drives nobody else gets; the oldest that nobody drives comes first.
    leases::a_held_operation_is_not_claimed;
    /// Of claims of one operation at once exactly one wins.
    leases::of_eight_claims_of_one_operation_one_wins;
    /// A lease that is not renewed ends by itself, and whoever had it cannot renew it.
    leases::a_lease_that_is_not_renewed_ends;
    /// Whoever lost the lease writes nothing.
    leases::who_lost_the_lease_writes_nothing;
    /// An operation that waits for a decision is driven by nobody, and at once by whoever comes after the decision.
    leases::an_operation_that_waits_for_a_decision_is_not_claimed;
    /// Whoever is fenced off writes nothing more; where a lease is held, that needs force.
    leases::who_is_fenced_off_writes_nothing;
    /// A cluster on which others live is not taken away: they are named.
    vims::a_cluster_that_is_used_is_not_retired;
    /// A cluster that is being taken away gets no new instance.
    vims::a_cluster_that_is_retired_is_not_used;
    /// A cluster is the same under every registration, and where a request brought it.
    vims::the_same_cluster_under_another_name_counts;
    /// An instance of another tenant counts, and nothing is told of it.
    vims::a_user_of_another_tenant_counts_and_is_not_named;
    /// Of a new instance on a cluster and the end of that cluster exactly one is accepted.
    vims::of_use_and_retirement_that_race_one_is_accepted;
    /// That a VIM turns out to be a certain cluster is kept of those who live on it already.
    vims::an_identity_that_is_learned_later_is_kept;
    /// Ids and names of VIMs are unique for a tenant.
    vims::ids_and_names_of_vims_are_unique;
    /// A VIM is written from the version that it was read in.
    vims::a_vim_written_from_an_old_version_is_refused;
    /// A VIM on which instances live is removed by force alone; an absent one is removed.
    vims::a_vim_that_is_used_is_removed_by_force_alone;
    /// A VIM that is shared is seen by every tenant, and stays shared while others live on it; an own one wins.
    vims::a_shared_vim_is_seen_by_all;
    /// A VNFD belongs to one package of a tenant.
    instances::a_vnfd_belongs_to_one_package;
    /// A package from which instances were made is in use, and not removed.
    instances::a_package_that_is_used_is_not_removed;
    /// Notifications are numbered in the order of their transactions, without a gap, and come in that order.
    told::notifications_are_numbered_in_the_order_of_their_transactions;
    /// Whoever waits for news hears of a notification and of a subscription, and which of the two it is.
    told::who_waits_for_news_hears_of_it;
    /// A subscription is told what is written after it, keeps how far it is, and has its login sealed in lists.
    told::a_subscription_begins_with_what_comes_next;
    /// An abandoned instance is gone with what is kept for it, and leaves a tombstone until that is forgotten.
    told::what_is_abandoned_leaves_a_tombstone;
    /// The audit is numbered, and each tenant sees its own.
    told::the_audit_is_numbered;
    /// What a tenant has is counted, and each tenant that has something is listed.
    told::what_tenants_have_is_counted;
    /// A tenant is shown numbers that count its own notifications alone.
    told::a_tenant_is_shown_numbers_of_its_own_notifications;
    /// What there is and what is set aside are no more together than a quota; a refused list is not kept.
    told::a_quota_holds_for_what_there_is_and_what_is_set_aside;
    /// A log keeps its newest 2000 lines of at most 4096 bytes.
    ops::a_log_keeps_its_newest_lines;
    /// The first host key of a host stays until its instance goes.
    instances::the_first_host_key_stays_until_its_instance_goes;
    /// A host key is of one tenant and one VIM: another one pins and sees its own.
    instances::a_host_key_is_of_one_tenant_and_vim;
    /// A host key that was forgotten makes room for the next one, and for nobody else.
    instances::a_forgotten_host_key_makes_room_for_the_next_one;
    /// Lists come in pages in order of id, and without what is sealed.
    lists::lists_come_in_pages_in_order_of_id;
    /// A filter finds by every operator in every kind of value; several expressions of one list speak of one entry.
    lists::a_filter_finds_by_every_operator_in_every_kind_of_value;
    /// A filter finds what is not written but computed, too.
    lists::a_filter_finds_what_is_computed;
    /// A page begins behind an id, so what comes and goes meanwhile shifts nothing.
    lists::what_is_filtered_comes_in_pages_that_changes_do_not_shift;
    /// What is found is what `Filter::holds` says, for thousands of filters.
    lists::what_is_found_is_what_the_filter_says;
    /// Who is narrowed sees instances and operations of their vendors, VIMs and namespaces alone, in every list.
    sight::instances_and_their_operations_are_seen_by_vendor_vim_and_namespace;
    /// Who is narrowed sees no operation that ran where they do not see, although its instance lives nowhere any more.
    sight::operations_that_ran_elsewhere_stay_out_of_sight;
    /// Who is narrowed sees packages of their vendors, and subscriptions that were made so.
    sight::packages_and_subscriptions_are_seen_by_those_who_may;
}
