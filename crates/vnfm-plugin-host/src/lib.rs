//! Loads MgmtDriver plugins and runs their hooks.
