//! VIMs as operations use them: instances hold an id and never a credential, and a login is tested before it is stored.

mod connections;
mod handle;
mod login_binding;
mod tested;

pub(crate) use connections::{
    Connections, as_port_error, check_registered, choose, name_by_id, of_connections, repeats,
    without_access_info,
};
pub(crate) use handle::{VimHandle, connection_of};
pub(crate) use login_binding::check_login_bound;
pub(crate) use tested::{Candidate, store_report};
