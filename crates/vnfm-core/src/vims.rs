//! VIMs as operations use them: instances hold an id and never a credential, and a login is tested before it is stored.

mod bound_login;
mod connections;
mod handle;
mod tested;

pub(crate) use bound_login::check_login_bound;
pub(crate) use connections::{
    Connections, as_port_error, check_registered, name_by_id, of_connections, without_access_info,
};
pub(crate) use handle::{VimHandle, connection_of};
pub(crate) use tested::{Candidate, store_report};
