//! MgmtDriver that registers the clusters of a VNF, which Cluster API creates, as VIMs.
//!
//! | hook | what it does |
//! |---|---|
//! | `instantiate_end` | reads the kubeconfigs of the VNF's clusters and registers each as a VIM |
//! | `heal_end`, `scale_end`, `scale_to_level_end` | the same again: Cluster API has renewed the certificate in a kubeconfig |
//!
//! The driver of the management cluster waits until the clusters are available, and reads their kubeconfigs; this one only
//! turns them into VIMs. There is no hook for the termination: the engine unregisters the VIMs of an instance by itself.

mod kubeconfig;

use kubeconfig::Kubeconfig;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_plugin_sdk::Object;
use vnfm_plugin_sdk::prelude::*;

/// End of the name of the Secret in which Cluster API stores a kubeconfig.
const SUFFIX: &str = "-kubeconfig";

/// The members of the request's `additionalParams`; others are variables of the manifests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Params {
    /// How the clusters become VIMs.
    cluster_api: Registration,
}

/// How the clusters become VIMs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Registration {
    /// Name of the VIM, if the VNF has one cluster; absent: the name of the cluster.
    vim_name: Option<String>,
    /// URL of the API server as the VNFM reaches it, with https, if the VNF has one cluster; absent: that of the kubeconfig.
    endpoint: Option<String>,
}

/// The driver. It is stateless.
#[derive(Debug)]
pub struct ClusterApi;

impl MgmtDriver for ClusterApi {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        let names = [
            "instantiate_end",
            "heal_end",
            "scale_end",
            "scale_to_level_end",
        ];
        names
            .into_iter()
            .fold(hooks, |hooks, name| hooks.on(name, Self::register))
    }
}

impl Registration {
    /// Refuses an endpoint to which the login of the kubeconfig would go in clear text, as [`Kubeconfig::parse`] does.
    fn check(&self) -> Result<(), DriverError> {
        let is_safe = |endpoint: &String| endpoint.starts_with("https://");
        if self.endpoint.as_ref().is_none_or(is_safe) {
            return Ok(());
        }
        let detail = "`cluster_api.endpoint` is no URL with https, and the login to the cluster would go there in clear text: \
                      name one that begins with `https://`";
        Err(DriverError::new("bad-parameters", detail))
    }
}

impl ClusterApi {
    async fn register(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let how = &request.additional_params.cluster_api;
        how.check()?;
        let kubeconfigs = kubeconfigs(cx.outputs().await?);
        if kubeconfigs.is_empty() {
            let detail = "the VNF has no cluster with a kubeconfig: its Secret `NAME-kubeconfig` does not exist";
            return Err(DriverError::new("no-kubeconfig", detail).retryable());
        }
        if kubeconfigs.len() > 1 && (how.vim_name.is_some() || how.endpoint.is_some()) {
            let detail = format!(
                "the VNF has {} clusters, and `cluster_api` names or addresses one VIM",
                kubeconfigs.len()
            );
            return Err(DriverError::new("many-clusters", detail));
        }
        let mut effects = Effects::none();
        let mut names = Vec::new();
        for (cluster, text) in kubeconfigs {
            let name = how.vim_name.clone().unwrap_or_else(|| cluster.clone());
            let kubeconfig = Kubeconfig::parse(&text).map_err(|what| {
                let detail =
                    format!("the kubeconfig of cluster `{cluster}` cannot be used: {what}");
                DriverError::new("bad-kubeconfig", detail)
            })?;
            names.push(format!("`{name}`"));
            effects = effects.register_vim(kubeconfig.into_vim(&name, how.endpoint.as_deref()));
        }
        let names = names.join(", ");
        Ok(effects.message(format!("registered as VIM: {names}")))
    }
}

/// The kubeconfigs among the outputs of the VNF, by the name of their cluster.
fn kubeconfigs(outputs: Object) -> BTreeMap<String, Secret> {
    let named = outputs.into_iter().filter_map(|(name, value)| {
        let cluster = name.strip_suffix(SUFFIX)?.to_owned();
        Some((cluster, Secret::new(value.as_str()?)))
    });
    named.collect()
}

export_mgmt_driver!(ClusterApi);

#[cfg(test)]
mod tests {
    use super::ClusterApi;
    use crate::kubeconfig::tests::{KEY, SECRET, kubeconfig};
    use serde_json::json;
    use vnfm_plugin_sdk::testkit::{TestHost, TestRequest, request, trial};

    fn hook() -> TestRequest {
        request("instantiate_end").params(json!({"cluster_name": "edge", "replicas": 2}))
    }

    fn host() -> TestHost {
        TestHost::new()
            .output("edge-kubeconfig", kubeconfig())
            .output("address", "10.0.0.1")
    }

    #[test]
    fn a_cluster_becomes_a_vim_of_its_name() {
        let host = host();
        let effects = host.run::<ClusterApi>(hook()).unwrap();
        let [vim] = effects.register_vims.as_slice() else {
            panic!("{effects:?}");
        };
        assert_eq!(
            (vim.name.as_str(), vim.vim_type.as_str()),
            ("edge", "ETSINFV.KUBERNETES.V_1")
        );
        assert_eq!(vim.interface_info["endpoint"], "https://10.0.0.9:6443");
        assert_eq!(vim.access_info["client_key"], KEY);
        assert_eq!(
            effects.message.as_deref(),
            Some("registered as VIM: `edge`")
        );
        assert_eq!(host.find_leaks(SECRET), [""; 0]);
    }

    #[test]
    fn name_and_endpoint_of_the_vim_may_be_others() {
        let how =
            json!({"cluster_api": {"vim_name": "north", "endpoint": "https://192.0.2.1:443"}});
        let effects = host()
            .run::<ClusterApi>(hook().params(how.clone()))
            .unwrap();
        let vim = &effects.register_vims[0];
        assert_eq!(vim.name, "north");
        assert_eq!(vim.interface_info["endpoint"], "https://192.0.2.1:443");

        let two = host().output("core-kubeconfig", kubeconfig());
        let effects = two.run::<ClusterApi>(hook()).unwrap();
        let names: Vec<_> = effects.register_vims.iter().map(|vim| &vim.name).collect();
        assert_eq!(names, ["core", "edge"]);
        let error = two.run::<ClusterApi>(hook().params(how)).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.retryable),
            ("many-clusters", false)
        );
    }

    #[test]
    fn an_endpoint_without_tls_is_refused() {
        for endpoint in [
            "http://192.0.2.1:443",
            "192.0.2.1:443",
            "ftp://192.0.2.1",
            "",
        ] {
            let how = json!({"cluster_api": {"endpoint": endpoint}});
            let host = host();
            let error = host.run::<ClusterApi>(hook().params(how)).unwrap_err();
            assert_eq!(
                (error.code.as_str(), error.retryable),
                ("bad-parameters", false)
            );
            assert!(error.detail.contains("begins with `https://`"), "{error}");
        }
    }

    #[test]
    fn a_missing_or_unusable_kubeconfig_is_named() {
        let error = TestHost::new().run::<ClusterApi>(hook()).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.retryable),
            ("no-kubeconfig", true)
        );
        let broken = TestHost::new().output("edge-kubeconfig", format!("a: [{SECRET}"));
        let error = broken.run::<ClusterApi>(hook()).unwrap_err();
        assert_eq!(error.code, "bad-kubeconfig");
        assert!(
            error.detail.contains("`edge`") && !error.detail.contains(SECRET),
            "{error}"
        );
        let misspelt = json!({"cluster_api": {"vimName": "north"}});
        let error = host()
            .run::<ClusterApi>(hook().params(misspelt))
            .unwrap_err();
        assert_eq!(error.code, "bad-parameters");
    }

    #[test]
    fn whatever_goes_wrong_it_ends_well_when_it_is_run_again() {
        trial::<ClusterApi>(host, hook())
            .secret(SECRET)
            .run()
            .unwrap();
    }
}
