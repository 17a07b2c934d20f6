//! What a store says as an error of a port.

use super::{Code, ErrorKind, PortError, StoreError};

/// The database does not answer.
pub(crate) const UNAVAILABLE: Code = Code {
    name: "store.unavailable",
    kind: ErrorKind::Unavailable,
    means: "the database does not answer",
    next: "look at the database's disk and its owner; what was going on goes on by itself",
};
/// A condition of a write does not hold.
pub(crate) const CONFLICT: Code = Code {
    name: "store.conflict",
    kind: ErrorKind::Refused,
    means: "the record is not as the change needs it",
    next: "read it again and decide anew",
};
/// The database holds what it should not.
pub(crate) const BROKEN: Code = Code {
    name: "store.broken",
    kind: ErrorKind::Broken,
    means: "what the database holds makes no sense, or was sealed with a key that is not there",
    next: "check that `secrets.key` belongs to this database, and report it otherwise",
};

/// Whoever keeps the keys does not answer.
pub(crate) const KEYS_AWAY: Code = Code {
    name: "store.keys-away",
    kind: ErrorKind::Unavailable,
    means: "whoever keeps the keys that seal secrets does not answer",
    next: "see to it that Barbican answers, then ask again; what is sealed goes on to be read meanwhile",
};
/// Whoever keeps the keys says no.
pub(crate) const KEYS_REFUSED: Code = Code {
    name: "store.keys-refused",
    kind: ErrorKind::Refused,
    means: "the keys that seal secrets cannot be had from where they are to be, or not be brought there",
    next: "correct `secrets.barbican` of the configuration, then ask again",
};

impl From<StoreError> for PortError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Unavailable(_) => &UNAVAILABLE,
            StoreError::Broken(_) => &BROKEN,
            StoreError::Keys {
                kind: ErrorKind::Unavailable,
                ..
            } => &KEYS_AWAY,
            StoreError::Keys { .. } => &KEYS_REFUSED,
            _ => &CONFLICT,
        };
        PortError::new(code, "use the database", error.to_string())
    }
}
