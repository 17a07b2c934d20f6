//! The C ABI between vnfm and a MgmtDriver plugin.
