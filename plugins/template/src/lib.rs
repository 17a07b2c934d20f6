//! What the author of a MgmtDriver copies.
