//! How clients outside the cluster reach it: what is registered as a VIM.

use crate::config::VIM_TYPE;
use crate::plan::Plan;
use crate::registry;
use vnfm_plugin_sdk::prelude::*;

/// How to reach the cluster.
pub(crate) struct Access {
    pub(crate) endpoint: String,
    pub(crate) ca: String,
    pub(crate) ca_hash: Option<String>,
    pub(crate) bearer_token: String,
    pub(crate) certificate_key: Option<String>,
}

impl Access {
    /// The cluster as a VIM to register.
    pub(crate) fn into_vim(self, plan: &Plan) -> NewVim {
        let mut vim = NewVim::new(&plan.vim_name, VIM_TYPE)
            .interface("endpoint", self.endpoint)
            .access("bearer_token", self.bearer_token);
        if !self.ca.is_empty() {
            vim = vim.interface("ssl_ca_cert", self.ca);
        }
        if let Some(hash) = self.ca_hash {
            vim = vim.extra("ssl_ca_cert_hash", hash);
        }
        if let Some(key) = self.certificate_key {
            // It decrypts the control plane's certificates, so it must not be in a visible member.
            vim = vim.access("certificate_key", key);
        }
        registry::named_by(vim, plan.registry.as_ref())
    }
}
