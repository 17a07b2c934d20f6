//! How far a process has got, for the message when it ends without a result.

/// How far a process has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Loading,
    Creating,
    Waiting,
    Running,
}

impl Phase {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Loading => "while opening its library",
            Self::Creating => "while creating its driver",
            Self::Waiting => "before the hook started",
            Self::Running => "during the hook",
        }
    }
}
