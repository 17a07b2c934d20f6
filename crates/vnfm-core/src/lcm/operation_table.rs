//! The operations of the product, each with its row.

use super::operation::Operation;
use super::{
    change_ext_conn, change_flavour, change_vnfpkg, create_snapshot, heal, instantiate,
    modify_info, operate, revert_to_snapshot, scale, scale_to_level, terminate,
};

/// All operations. One added here is covered by the generic tests and the fault machine.
pub const OPERATIONS: &[&Operation] = &[
    &instantiate::OPERATION,
    &heal::OPERATION,
    &scale::OPERATION,
    &scale_to_level::OPERATION,
    &operate::OPERATION,
    &change_flavour::OPERATION,
    &change_ext_conn::OPERATION,
    &change_vnfpkg::OPERATION,
    &create_snapshot::OPERATION,
    &revert_to_snapshot::OPERATION,
    &modify_info::OPERATION,
    &terminate::OPERATION,
];
