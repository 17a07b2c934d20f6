//! The certificates of the control plane: when they expire, and their renewal.
//!
//! ```text
//! each control-plane node in turn:  `kubeadm certs renew all` ─► API server stops ─► etcd restarts ─► API server starts
//! ```
//!
//! A component reads its certificates when it starts. The components of a node restart by a label in their manifests, and must be
//! Ready before the next node: with several control-plane nodes there is always one that responds, and one whose API server is
//! stopped refuses connections, so that the load balancer asks another. The label is that of the operation, so that the attempt
//! after a crash sees what is done. Kubelets renew their own certificates.
//!
//! Certificates that have expired are renewed first, on all nodes that have such, at the same time and without the API server,
//! which accepts nobody: members of etcd with expired certificates have no quorum until most of them have new ones.

use crate::api::Api;
use crate::clocks;
use crate::cluster::names;
use crate::external_etcd;
use crate::installer::first_failure;
use crate::join_tokens::random_token;
use crate::machine::Machine;
use crate::plan::Plan;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;
use vnfm_plugin_sdk::Object;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "certificates";
/// The checkpoint with the label's value.
const RENEWAL: &str = "renewal";
/// The label that `vnfm-kubernetes restart` sets.
const RESTARTED: &str = "vnfm.dev/restarted";
/// How long a component may take to be Ready again, and the interval between two looks.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
const READY_INTERVAL: Duration = Duration::from_millis(500);

/// What `kubeadm certs check-expiration -o json` prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expirations {
    certificates: Vec<Certificate>,
    certificate_authorities: Vec<Certificate>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    name: String,
    expiration_date: Option<String>,
    /// Seconds until then; below 0 afterwards.
    #[serde(default)]
    residual_time: i64,
    #[serde(default)]
    missing: bool,
}

impl Expirations {
    /// Each certificate's time of expiry, in UTC.
    fn dates(self) -> Object {
        let all = self
            .certificates
            .into_iter()
            .chain(self.certificate_authorities);
        let present = all.filter(|certificate| !certificate.missing);
        present
            .filter_map(|certificate| Some((certificate.name, certificate.expiration_date?.into())))
            .collect()
    }

    /// Whether a certificate has expired that kubeadm can renew.
    fn have_expired(&self) -> bool {
        let is_expired = |one: &Certificate| !one.missing && one.residual_time < 0;
        self.certificates.iter().any(is_expired)
    }
}

/// Adds to `effects` when the certificates of each control-plane node expire, with a message that names the first. Nodes that do
/// not respond are left out, and named in the message.
///
/// # Errors
///
/// `certificates-failed` if kubeadm cannot read them.
pub(crate) async fn show(
    cx: &HookContext,
    plan: &Plan,
    effects: Effects,
) -> Result<Effects, DriverError> {
    let reads = plan.control_planes.iter().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        let read = if host.answers().await {
            let mut dates = read(&host).await?.dates();
            dates.extend(external_etcd::login_expiry(&host).await?);
            Some(dates)
        } else {
            None
        };
        Ok::<_, DriverError>((node, read))
    });
    let (mut all, mut silent) = (Object::new(), Vec::new());
    for read in join_all(reads).await {
        match read? {
            (node, Some(dates)) => {
                all.insert(node.name.clone(), dates.into());
            }
            (node, None) => silent.push(node),
        }
    }
    let mut message = match first_to_expire(&all) {
        Some((node, name, date)) => {
            format!("the first certificate to expire is `{name}` on `{node}`, at {date}")
        }
        None => "the control plane has no certificates of kubeadm".to_owned(),
    };
    if !silent.is_empty() {
        let _ = write!(
            message,
            "; {} did not respond, so that the certificates there are not known",
            names(silent)
        );
    }
    Ok(effects.metadata("certificateExpiry", all).message(message))
}

/// The certificates of a control-plane node.
async fn read(host: &Machine<'_>) -> Result<Expirations, DriverError> {
    let printed = host
        .run(PHASE, "kubeadm certs check-expiration -o json")
        .await?
        .stdout;
    serde_json::from_str(printed.trim()).map_err(|error| {
        let detail = format!("kubeadm printed no list of certificates: {error}");
        host.refusal("certificates-failed", PHASE, detail)
    })
}

/// Node, name and time of the certificate that expires first.
fn first_to_expire(all: &Object) -> Option<(String, String, String)> {
    let on_nodes = all
        .iter()
        .filter_map(|(node, dates)| Some((node, dates.as_object()?)));
    let dates =
        on_nodes.flat_map(|(node, dates)| dates.iter().map(move |(name, date)| (node, name, date)));
    let dated = dates.filter_map(|(node, name, date)| Some((date.as_str()?, node, name)));
    // All times are in UTC and of one format, so that their order is that of their texts.
    dated
        .min()
        .map(|(date, node, name)| (node.clone(), name.clone(), date.to_owned()))
}

/// Starts what a restart that was interrupted, for example by a power cut, has stopped on the control-plane nodes that respond.
///
/// # Errors
///
/// If a node cannot be reached any more.
pub(crate) async fn resume(cx: &HookContext, plan: &Plan) -> Result<(), DriverError> {
    if plan.script().is_some() {
        return Ok(());
    }
    let all = plan.control_planes.iter().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        if !host.answers().await {
            return Ok(());
        }
        host.reach_node().await?;
        host.wait_for_steps(&[PHASE]).await?;
        host.kubernetes(PHASE, "resume").await.map(drop)
    });
    first_failure(join_all(all).await)
}

/// Renews the certificates of the control-plane nodes that respond and have an expired one, so that the API server responds again.
///
/// # Errors
///
/// `clocks-differ`, as certificates may only seem to have expired; `certificates-failed` if kubeadm cannot renew them, or etcd
/// does not respond afterwards.
pub(crate) async fn renew_expired(cx: &HookContext, plan: &Plan) -> Result<(), DriverError> {
    clocks::check(cx, plan, &plan.control_planes).await?;
    if plan.script().is_some() {
        return Ok(());
    }
    let id = &operation_id(cx, plan, RENEWAL).await?;
    let renewed = plan.control_planes.iter().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        if !host.answers().await {
            return Ok(());
        }
        host.reach_node().await?;
        if !host.facts().await?.has_control_plane() || !read(&host).await?.have_expired() {
            return Ok(());
        }
        let name = &node.name;
        cx.warn(&format!(
            "certificates on `{name}` have expired: renewing them"
        ));
        let components = host.kubernetes(PHASE, "components").await?;
        let components: Vec<_> = components.split_whitespace().collect();
        external_etcd::renew_login(&host).await?;
        // One step, which a crash of the VNFM does not end between the two: afterwards, nothing would tell that a restart is left.
        host.renew(PHASE, id, &components.join(" ")).await
    });
    first_failure(join_all(renewed).await)
}

/// Renews the certificates of all control-plane nodes, one node after the other, after [`renew_expired`].
///
/// # Errors
///
/// `certificates-failed` if kubeadm cannot renew them, for example because their CA's key is not on the host; `timed-out`
/// if a component is not Ready with them.
pub(crate) async fn renew(
    cx: &HookContext,
    plan: &Plan,
    api: &Api<'_>,
) -> Result<Effects, DriverError> {
    let id = operation_id(cx, plan, RENEWAL).await?;
    for node in &plan.control_planes {
        cx.progress(10, &format!("renewing the certificates on `{}`", node.name))
            .await;
        let restarts = Restarts {
            api,
            host: Machine::new(cx, plan, node),
            id: id.clone(),
        };
        restarts.renew().await?;
    }
    let effects = show(cx, plan, Effects::none()).await?;
    let message = format!(
        "renewed; {}",
        effects.message.as_deref().unwrap_or_default()
    );
    Ok(effects.message(message))
}

/// An id of this operation: six letters and digits, stored as this checkpoint.
pub(crate) async fn operation_id(
    cx: &HookContext,
    plan: &Plan,
    checkpoint: &str,
) -> Result<String, DriverError> {
    if let Some(id) = cx.checkpoint(checkpoint).await? {
        return Ok(id);
    }
    let random = random_token(&Machine::new(cx, plan, plan.first_control_plane()))?;
    let id: String = random.reveal().chars().take(6).collect();
    cx.save_checkpoint(checkpoint, &id).await?;
    Ok(id)
}

/// The restarts of static pods on one control-plane node.
pub(crate) struct Restarts<'a> {
    pub(crate) api: &'a Api<'a>,
    pub(crate) host: Machine<'a>,
    /// The label's value: letters, digits and `-`.
    pub(crate) id: String,
}

impl Restarts<'_> {
    /// Renews the certificates, and restarts all components.
    async fn renew(&self) -> Result<(), DriverError> {
        self.host.reach_node().await?;
        let components = self.host.kubernetes(PHASE, "components").await?;
        let components: Vec<_> = components.split_whitespace().collect();
        let restarted = format!("restarted {}", self.id);
        let restarted = self.host.kubernetes(PHASE, &restarted).await?;
        if restarted.trim().is_empty() {
            self.host.step(PHASE, "kubeadm certs renew all").await?;
            external_etcd::renew_login(&self.host).await?;
        }
        self.restart(&components).await
    }

    /// Restarts these components, except those that have been restarted with this label.
    ///
    /// # Errors
    ///
    /// `certificates-failed` if etcd does not respond afterwards; `timed-out` if a component is not Ready.
    pub(crate) async fn restart(&self, components: &[&str]) -> Result<(), DriverError> {
        self.host
            .restart(PHASE, &self.id, &components.join(" "))
            .await?;
        for component in components {
            self.wait_for(component).await?;
        }
        Ok(())
    }

    async fn wait_for(&self, component: &str) -> Result<(), DriverError> {
        let condition = format!(
            "`{component}` on `{}` to be Ready with its new certificates",
            self.host.node.name
        );
        let is_restarted = || async {
            match self.is_restarted(component).await {
                Ok(is_restarted) => Ok(is_restarted.then_some(())),
                // The API server cannot respond while it, or etcd, starts.
                Err(error) if error.retryable && error.code != "cancelled" => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.host
            .cx
            .wait_until(&condition, READY_INTERVAL, READY_TIMEOUT, is_restarted)
            .await
    }

    /// Whether the static pod runs with the label of this operation.
    async fn is_restarted(&self, component: &str) -> Result<bool, DriverError> {
        let path = format!(
            "/api/v1/namespaces/kube-system/pods/{component}-{}",
            self.host.node.name
        );
        let pod = self.api.find(&path).await?.unwrap_or_default();
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|seen| seen["type"] == "Ready" && seen["status"] == "True");
        Ok(is_ready && pod["metadata"]["labels"][RESTARTED] == self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Expirations, first_to_expire};
    use serde_json::json;
    use vnfm_plugin_sdk::Object;

    #[test]
    fn the_first_certificate_to_expire_is_found() {
        let printed = json!({ "kind": "CertificateExpirationInfo",
            "certificates": [
                { "name": "admin.conf", "expirationDate": "2027-11-28T10:00:00Z", "residualTime": 9, "missing": false },
                { "name": "apiserver", "expirationDate": "2027-03-01T10:00:00Z", "missing": false },
                { "name": "super-admin.conf", "expirationDate": null, "missing": true },
            ],
            "certificateAuthorities": [{ "name": "ca", "expirationDate": "2036-11-25T10:00:00Z" }] });
        let read: Expirations = serde_json::from_value(printed).unwrap();
        let dates = read.dates();
        assert_eq!(
            dates.keys().collect::<Vec<_>>(),
            ["admin.conf", "apiserver", "ca"]
        );
        let mut all = Object::new();
        all.insert("m1".into(), dates.into());
        let first = first_to_expire(&all).unwrap();
        assert_eq!(
            first,
            (
                "m1".into(),
                "apiserver".into(),
                "2027-03-01T10:00:00Z".into()
            )
        );
    }
}
