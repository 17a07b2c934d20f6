//! Shared virtual links: `NetworkAttachmentDefinition`s that no instance contains, in a namespace that none owns. Pods are
//! connected to one by `NAMESPACE/NAME`.

use crate::catalog::{Catalog, Target};
use crate::claims::pauses;
use crate::client::Session;
use crate::deletion::delete;
use crate::driver::KubernetesDriver;
use crate::errors::{FORBIDDEN, FOREIGN, KIND, SHARED_LINK, STILL_THERE};
use crate::identifiers::{is_label, is_subdomain};
use crate::labels;
use crate::network_annotations::{API_VERSION, KIND as NETWORK, NetworkName};
use crate::object::find_metadata;
use crate::stored_claims::create;
use async_trait::async_trait;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use vnfm_core::ports::{Expired, Links, PortError, VimCall};
use vnfm_types::{LinkSpec, SharedLink};

#[async_trait]
impl Links for KubernetesDriver {
    fn validate_link(&self, link: &LinkSpec) -> Result<(), PortError> {
        if !is_subdomain(&link.name) {
            return Err(refused(
                "name",
                "must be lowercase letters, digits, `-` and `.`",
            ));
        }
        if !link.namespace.as_deref().is_some_and(is_label) {
            return Err(refused("namespace", "must name an existing namespace"));
        }
        if !link.subnets.is_empty() {
            return Err(refused(
                "subnets",
                "is for OpenStack: `cniConfig.ipam` has the addresses",
            ));
        }
        let config = link.cni_config.as_ref();
        let has_plugin = |member: &str| config.is_some_and(|config| config.contains_key(member));
        if !has_plugin("type") && !has_plugin("plugins") {
            let what = "must be a CNI network configuration, with `type` or `plugins`";
            return Err(refused("cniConfig", what));
        }
        Ok(())
    }

    async fn create_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError> {
        let session = &self.session(cx)?;
        let network = target(link);
        match find_metadata(session, &network).await? {
            Some(metadata) if is_its(&metadata, cx, link) => return Ok(resource_id(link)),
            Some(_) => {
                let what = "an object of that name exists, and is not this shared virtual link";
                return Err(PortError::new(&FOREIGN, format!("create {network}"), what)
                    .on(network.to_string()));
            }
            None => {}
        }
        check_kind(session).await?;
        check_namespace(session, link).await?;
        create(session, &network, object(cx, link)?).await?;
        Ok(resource_id(link))
    }

    async fn delete_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<(), PortError> {
        let session = &self.session(cx)?;
        let network = target(link);
        let mut backoff = pauses(cx);
        loop {
            let found = find_metadata(session, &network).await?;
            let Some(own) = found.filter(|metadata| is_its(metadata, cx, link)) else {
                return Ok(());
            };
            if own.deletion_timestamp.is_none() {
                delete(session, &network, own.uid.as_deref().unwrap_or_default()).await?;
            }
            if let Err(Expired) = backoff.pause(&format!("{network} to be deleted")).await {
                let text = "it still exists at the deadline";
                let action = format!("delete {network}");
                return Err(PortError::new(&STILL_THERE, action, text).on(network.to_string()));
            }
        }
    }
}

fn refused(member: &str, what: &str) -> PortError {
    let text = format!("`{member}` {what}");
    PortError::new(&SHARED_LINK, "use the shared virtual link", text).on(member)
}

fn target(link: &SharedLink) -> Target {
    let network = NetworkName {
        namespace: link.spec.namespace.clone(),
        name: link.spec.name.clone(),
    };
    network.target()
}

fn resource_id(link: &SharedLink) -> String {
    let namespace = link.spec.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", link.spec.name)
}

/// Whether an object is the network of this link.
fn is_its(metadata: &ObjectMeta, cx: &VimCall<'_>, link: &SharedLink) -> bool {
    labels::label_of(metadata, labels::INSTALLATION) == Some(&cx.ownership.installation_id)
        && labels::label_of(metadata, labels::LINK) == Some(&link.id)
}

/// Refuses a cluster without networks for pods.
async fn check_kind(session: &Session<'_>) -> Result<(), PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    if catalog.find(API_VERSION, NETWORK).await?.is_some() {
        return Ok(());
    }
    let what = format!("the cluster does not serve `{NETWORK}` ({API_VERSION})");
    let error = PortError::new(&KIND, "create the shared virtual link", what);
    Err(error.hint("install Multus and its CustomResourceDefinition on the cluster, then retry"))
}

/// Refuses a namespace that does not exist, or that is deleted with an instance.
async fn check_namespace(session: &Session<'_>, link: &SharedLink) -> Result<(), PortError> {
    let name = link.spec.namespace.as_deref().unwrap_or_default();
    match find_metadata(session, &Target::namespace(name)).await {
        // A login for one namespace may not read it.
        Err(error) if error.code() == &FORBIDDEN => Ok(()),
        Err(error) => Err(error),
        Ok(None) => Err(refused(
            "namespace",
            &format!("names `{name}`, which does not exist"),
        )),
        Ok(Some(metadata)) if labels::label_of(&metadata, labels::INSTANCE).is_some() => {
            let what = format!("names `{name}`, which is deleted together with its VNF instance");
            Err(refused("namespace", &what))
        }
        Ok(Some(_)) => Ok(()),
    }
}

fn object(cx: &VimCall<'_>, link: &SharedLink) -> Result<Value, PortError> {
    let config = serde_json::to_string(&link.spec.cni_config);
    let config = config.map_err(|error| crate::driver::unserializable(&error))?;
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": NETWORK,
        "metadata": {"name": link.spec.name, "namespace": link.spec.namespace},
        "spec": {"config": config},
    });
    labels::stamp_link(&mut object, cx.ownership, &link.id);
    Ok(object)
}
