//! What the operator wants of zones that a grant prescribes and nothing can follow; `zone_check` finds them.

/// What happens with a granted zone that no parameter of the package's template accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnplacedZones {
    /// The operation is refused before anything is created.
    #[default]
    Refuse,
    /// The zone is logged, and the template or the cloud decides.
    Warn,
}
