//! vnfmctl: a thin client; every command prints what it did.
