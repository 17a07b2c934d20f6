//! Store errors as port errors.

use super::{Code, ErrorKind, PortError, StoreError};

pub(crate) const UNAVAILABLE: Code = Code {
    name: "store.unavailable",
    kind: ErrorKind::Unavailable,
    means: "the database does not respond",
    next: "check the database's disk and the owner of its files; running operations continue by themselves",
};
pub(crate) const CONFLICT: Code = Code {
    name: "store.conflict",
    kind: ErrorKind::Refused,
    means: "the record changed, or is not in the state that the change requires",
    next: "read it again, then decide whether to repeat the request",
};
pub(crate) const BROKEN: Code = Code {
    name: "store.broken",
    kind: ErrorKind::Broken,
    means: "the database is inconsistent, or was sealed with a key that is missing",
    next: "check that `secrets.key` belongs to this database; if it does, report the error",
};

pub(crate) const KEYS_AWAY: Code = Code {
    name: "store.keys-away",
    kind: ErrorKind::Unavailable,
    means: "the provider of the keys that seal secrets does not respond",
    next: "make sure that Barbican responds, then try again; sealed data stays readable meanwhile",
};
pub(crate) const KEYS_REFUSED: Code = Code {
    name: "store.keys-refused",
    kind: ErrorKind::Refused,
    means: "the keys that seal secrets cannot be fetched from or stored at the configured provider",
    next: "correct `secrets.barbican` in the configuration, then try again",
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
