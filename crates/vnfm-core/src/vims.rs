//! VIMs as operations use them: instances hold an id and never a credential, logins are tested before they are stored, and
//! a cluster that a hook created is registered as an effect of the operation.

mod bound_login;
mod connections;
mod handle;
mod hook_created;
mod tested;

pub(crate) use bound_login::check_login_bound;
pub(crate) use connections::{
    Connections, as_port_error, check_registered, name_by_id, of_connections, without_access_info,
};
pub(crate) use handle::{VimHandle, connection_of};
pub(crate) use hook_created::{register_for, unregister_all_of, unregister_of, vim_id};
pub(crate) use tested::{Candidate, store_report};
