//! What the author of a MgmtDriver sees: a trait, messages, one macro, a test-kit.
