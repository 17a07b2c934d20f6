//! What a client asks Heat to do with a stack.

/// A request on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    Delete,
    Check,
}

impl Action {
    /// The first word of the stack's status meanwhile.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Check => "CHECK",
        }
    }
}
