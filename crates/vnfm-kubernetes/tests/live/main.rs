//! The driver against a real API server with controllers, scheduler and simulated nodes, named by
//! `VNFM_LIVE_KUBECONFIG`. Without one the tests are skipped, loudly, and fail where `VNFM_REQUIRE_LIVE=1`.

mod deploy;
mod login;
mod remove;
mod support;
