//! The vnfm engine for embedders: ports, drivers by feature.
