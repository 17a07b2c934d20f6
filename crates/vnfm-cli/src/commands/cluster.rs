//! `vnfmctl cluster …`: the Kubernetes clusters that VNFs have installed.
//!
//! A cluster is the VIM that an instance has registered. What the plugin `kubernetes-cluster` does on it is an `operate` request
//! with `changeStateTo: STARTED` and the parameter `cluster_action`, so that it has an operation, a journal and a rollback.

use super::cluster_backups;
use super::secret_input::read_secret;
use super::vim::VIMS;
use super::vnf::{BeginRequest, INSTANCES, begin_on, id_of};
use crate::args::{Cluster, ClusterTask, RollingTask, Rotation};
use crate::client::{Client, Outcome, local, segment};
use crate::output::{Column, Output, print, tell};
use reqwest::Method;
use serde_json::{Value, json};
use vnfm::lcm::operate;
use vnfm_types::KUBERNETES;

const COLUMNS: &[Column] = &[
    ("name", "/name"),
    ("vnf", "/vnf"),
    ("version", "/version"),
    ("nodes", "/nodes"),
    ("vnfs on it", "/tenants"),
    ("last backup", "/lastBackup/shown"),
    ("next backup", "/schedule/nextAt"),
    ("state", "/state"),
];
const DETAILS: &[Column] = &[
    ("name", "/name"),
    ("endpoint", "/endpoint"),
    ("vnf", "/vnf"),
    ("vnf id", "/vnfInstanceId"),
    ("state", "/state"),
    ("version", "/version"),
    ("nodes", "/metadata/nodeStatus"),
    ("kubelets", "/metadata/kubeletVersions"),
    ("software", "/metadata/nodeSoftware"),
    ("differs", "/metadata/nodeSoftwareDiffers"),
    ("certificates", "/metadata/certificateExpiry"),
    ("clock offsets", "/metadata/clockOffsets"),
    ("etcd", "/metadata/etcdMembers"),
    ("snapshots", "/metadata/etcdSnapshots"),
    ("last backup", "/lastBackup/shown"),
    ("backup schedule", "/schedule/shown"),
    ("last scheduled", "/schedule/lastResult"),
    ("add-ons", "/metadata/addons"),
    ("not healthy", "/metadata/addonsNotHealthy"),
    ("vnfs on it", "/tenantNames"),
];

pub(super) async fn run(client: &Client, output: Output, command: Cluster) -> Outcome<()> {
    let (task, params) = match command {
        Cluster::Kubeconfig {
            cluster,
            expires,
            reason,
        } => return kubeconfig(client, output, (&cluster, expires, reason.as_deref())).await,
        Cluster::List => {
            let all = Clusters::read(client).await?;
            let mut rows = Vec::new();
            for (vim, vnf) in all.all() {
                rows.push(cluster_backups::shown(client, vnf, all.row(vim, vnf)).await?);
            }
            return output.list(&rows, COLUMNS);
        }
        Cluster::Show { cluster } => {
            let all = Clusters::read(client).await?;
            let (vim, vnf) = all.find(&cluster)?;
            let row = cluster_backups::shown(client, vnf, all.row(vim, vnf)).await?;
            return output.one(&row, DETAILS);
        }
        Cluster::Check(task) => (task, json!({ "cluster_action": "check" })),
        Cluster::Addons(task) => (task, json!({ "cluster_action": "apply_addons" })),
        Cluster::Rotate { what, task } => {
            let action = match what {
                Rotation::Certificates => "renew_certificates",
                Rotation::Ca => "rotate_ca",
                Rotation::Login => "renew_login",
            };
            (task, json!({ "cluster_action": action }))
        }
        Cluster::Patch(rolling) => rolling_params("patch_software", rolling),
        Cluster::Upgrade(upgrade) => {
            let (task, mut params) = rolling_params("upgrade", upgrade.rolling);
            give(&mut params, "kubernetes_version", upgrade.version);
            (task, params)
        }
        Cluster::Backup(backup) => return cluster_backups::back_up(client, output, backup).await,
        Cluster::Backups { cluster, save, out } => {
            let saved = save.as_deref().zip(out.as_deref());
            return cluster_backups::list(client, output, (&cluster, saved)).await;
        }
        Cluster::Restore { task, from } => {
            let passphrase = read_secret()?;
            let snapshot = cluster_backups::named(client, &task.cluster, &from).await?;
            let params = json!({
                "cluster_action": "restore",
                "etcd_passphrase": passphrase,
                "etcd_snapshot": snapshot,
            });
            (task, params)
        }
    };
    act(client, output, task, params).await
}

/// Prints the kubeconfig itself to standard output, and when it expires to standard error.
async fn kubeconfig(
    client: &Client,
    output: Output,
    (cluster, seconds, reason): (&str, u32, Option<&str>),
) -> Outcome<()> {
    let all = Clusters::read(client).await?;
    let (vim, _) = all.find(cluster)?;
    let path = format!("{VIMS}/{}/kubeconfig", segment(id_of(vim)));
    let request = client.request(Method::POST, &path);
    let request = request.json(&json!({ "expirationSeconds": seconds }));
    let issued: Value = client.json(client.with_audit(request, reason)?).await?;
    if !output.is_table() {
        return output.value(&issued);
    }
    print(issued["kubeconfig"].as_str().unwrap_or_default());
    let expires = issued["expiresAt"].as_str().unwrap_or_default();
    tell(&format!("the kubeconfig expires at {expires}"));
    Ok(())
}

fn rolling_params(action: &str, rolling: RollingTask) -> (ClusterTask, Value) {
    let mut params = json!({ "cluster_action": action });
    give(&mut params, "parallel_upgrades", rolling.parallel);
    give(&mut params, "drain_timeout_seconds", rolling.drain_timeout);
    (rolling.task, params)
}

/// Adds a parameter that has a value.
pub(super) fn give(params: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        params[name] = value.into();
    }
}

/// Begins the operation that acts on the cluster.
pub(super) async fn act(
    client: &Client,
    output: Output,
    task: ClusterTask,
    params: Value,
) -> Outcome<()> {
    let all = Clusters::read(client).await?;
    let (_, vnf) = all.find(&task.cluster)?;
    let begin = BeginRequest {
        vnf: task.cluster,
        operation: &operate::OPERATION,
        body: json!({ "changeStateTo": "STARTED", "additionalParams": params }),
        skip: None,
        cascade: false,
        watch: task.watch,
    };
    begin_on(client, output, vnf, begin).await
}

/// The VIMs and instances of the tenant.
pub(super) struct Clusters {
    vims: Vec<Value>,
    vnfs: Vec<Value>,
}

impl Clusters {
    pub(super) async fn read(client: &Client) -> Outcome<Self> {
        Ok(Self {
            vims: client.list(VIMS).await?,
            // A list leaves out versions, resources and VIMs unless all fields are requested.
            vnfs: client.list(&format!("{INSTANCES}?all_fields")).await?,
        })
    }

    /// Each cluster: its VIM, and the instance that installed it.
    fn all(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let vims = self.vims.iter().filter(|vim| vim["vimType"] == KUBERNETES);
        vims.filter_map(|vim| {
            let owner = vim["registeredBy"].as_str()?;
            let vnf = self.vnfs.iter().find(|vnf| vnf["id"] == owner)?;
            Some((vim, vnf))
        })
    }

    /// The cluster with this id or name of VIM or VNF.
    pub(super) fn find(&self, cluster: &str) -> Outcome<(&Value, &Value)> {
        let is_named = |(vim, vnf): &(&Value, &Value)| {
            let names = [
                &vim["id"],
                &vim["name"],
                &vnf["id"],
                &vnf["vnfInstanceName"],
            ];
            names.iter().any(|name| **name == cluster)
        };
        let found: Vec<_> = self.all().filter(is_named).collect();
        match found[..] {
            [one] => Ok(one),
            [] => {
                let known = self.all().filter_map(|(vim, _)| vim["name"].as_str());
                let known: Vec<_> = known.collect();
                Err(local(format!(
                    "no VNF or VIM `{cluster}` has a cluster; the clusters are: {}",
                    known.join(", ")
                )))
            }
            _ => Err(local(format!(
                "several clusters have the name `{cluster}`; use the ID of the VIM"
            ))),
        }
    }

    fn row(&self, vim: &Value, vnf: &Value) -> Value {
        let tenants: Vec<_> = self.vnfs.iter().filter(|other| is_on(other, vim)).collect();
        let names = tenants.iter().map(|one| match &one["vnfInstanceName"] {
            Value::String(name) => name.clone(),
            _ => id_of(one).to_owned(),
        });
        let vnfcs = vnf.pointer("/instantiatedVnfInfo/vnfcResourceInfo");
        json!({
            "name": vim["name"],
            "endpoint": vim.pointer("/interfaceInfo/endpoint"),
            "vimId": vim["id"],
            "vnf": vnf["vnfInstanceName"],
            "vnfInstanceId": vnf["id"],
            "state": vnf.pointer("/instantiatedVnfInfo/vnfState"),
            "version": vnf.pointer("/metadata/kubernetesVersion"),
            "nodes": vnfcs.and_then(Value::as_array).map(Vec::len),
            "metadata": vnf["metadata"],
            "tenants": tenants.len(),
            "tenantNames": names.collect::<Vec<_>>(),
        })
    }
}

/// Whether an instance runs on this VIM.
fn is_on(vnf: &Value, vim: &Value) -> bool {
    let connections = vnf["vimConnectionInfo"].as_object();
    let mut connections = connections.into_iter().flat_map(serde_json::Map::values);
    connections.any(|one| one["vimId"] == vim["id"])
}

#[cfg(test)]
mod tests {
    use super::Clusters;
    use serde_json::{Value, json};
    use vnfm_types::{KUBERNETES, OPENSTACK};

    fn clusters() -> Clusters {
        let vim = |id: &str, owner: Value| json!({"id": id, "name": format!("vim-{id}"), "vimType": KUBERNETES, "registeredBy": owner});
        let on = |vim: &str| json!({"k": {"vimId": vim}});
        Clusters {
            vims: vec![
                vim("1", "a".into()),
                vim("2", Value::Null),
                json!({"id": "3", "vimType": OPENSTACK, "registeredBy": "a"}),
            ],
            vnfs: vec![
                json!({"id": "a", "vnfInstanceName": "cluster", "vimConnectionInfo": on("3"),
                    "metadata": {"kubernetesVersion": "v1.36.2"}}),
                json!({"id": "b", "vnfInstanceName": "web", "vimConnectionInfo": on("1")}),
                json!({"id": "c", "vimConnectionInfo": on("1")}),
            ],
        }
    }

    #[test]
    fn a_cluster_is_found_by_vim_or_vnf() {
        let all = clusters();
        for name in ["1", "vim-1", "a", "cluster"] {
            let (vim, vnf) = all.find(name).unwrap();
            assert_eq!(
                (&vim["id"], &vnf["id"]),
                (&json!("1"), &json!("a")),
                "{name}"
            );
        }
        let error = format!("{:?}", all.find("vim-2").unwrap_err());
        assert!(error.contains("the clusters are: vim-1"), "{error}");
    }

    #[test]
    fn a_row_has_version_and_tenants() {
        let all = clusters();
        let (vim, vnf) = all.find("cluster").unwrap();
        let row = all.row(vim, vnf);
        assert_eq!(row["version"], "v1.36.2");
        assert_eq!(row["tenantNames"], json!(["web", "c"]));
    }
}
