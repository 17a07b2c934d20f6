//! The LCM engine: operations as journaled steps over ports.
