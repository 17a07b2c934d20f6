//! What happens on a VIM outside of operations: what only some VIMs can tell. A driver that can offers it by
//! [`InfraDriver::observes`](super::InfraDriver::observes).
//!
//! | rule | mandatory |
//! |---|---|
//! | `events` changes nothing | yes |
//! | its memory does not grow with the number of VNFCs or of events | yes |
//! | the first event is `Missed`, also after an interruption that may have lost some | yes |
//! | ids come from tags on the VIM, which others may set there, too: the engine checks them | yes |
//! | it takes no slot while it waits for events | yes |

use super::{Clock, PortError, Vim};
use futures_util::stream::BoxStream;

/// Tells which instances may have changed on a VIM.
pub trait Observes: Send + Sync {
    /// The events of a VIM, without end. After an error the driver pauses by itself, and then continues where it was.
    fn events<'a>(
        &'a self,
        vim: &'a dyn Vim,
        installation_id: &'a str,
        clock: &'a dyn Clock,
    ) -> BoxStream<'a, Result<VimEvent, PortError>>;
}

/// An event of a VIM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VimEvent {
    /// A VNFC that is tagged with this instance id was created, changed or deleted.
    Changed(String),
    /// Any number of events may have been missed, for any instance.
    Missed,
    /// The VIM responds, and nothing has changed.
    Unchanged,
}
