//! Sets up what serves the address of the API server on the control-plane nodes ([`crate::endpoint`]).
//!
//! Services are changed only if their configuration differs or they do not run, one node after the other, so that an address
//! in use moves as rarely as possible.

use crate::endpoint::{Provider, is_interface};
use crate::installer::Installer;
use crate::machine::Machine;
use crate::node::with_port;
use crate::plan::{API_PORT, Node, Plan};
use crate::versions::Version;
use serde_json::json;
use std::fmt::Write as _;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "endpoint";
const HAPROXY: (&str, &str) = ("haproxy", "/etc/haproxy/haproxy.cfg");
const KEEPALIVED: (&str, &str) = ("keepalived", "/etc/keepalived/keepalived.conf");
/// keepalived's check, in a file of its own: keepalived resolves links, and many small programs are links to a larger one.
const CHECK: &str = "/etc/keepalived/haproxy-runs";
const CHECK_TEXT: &str = "#!/bin/sh\nkill -0 \"$(cat /run/haproxy.pid)\"\n";
const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";
const ADMIN: &str = "/etc/kubernetes/admin.conf";
/// kubeadm writes it since 1.29, on the node of `kubeadm init` alone.
const SUPER_ADMIN: &str = "/etc/kubernetes/super-admin.conf";
/// VRRP priority of the first control-plane node; each following one has one less.
const PRIORITY: usize = 150;

impl Installer<'_> {
    /// Sets up what serves the address on a control-plane node.
    ///
    /// # Errors
    ///
    /// If the node lacks a program that the package does not provide, or a service does not start.
    pub(crate) async fn serve_endpoint(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        let plan = self.plan;
        match &plan.api.provider {
            Provider::Node | Provider::External => Ok(()),
            Provider::KubeVip { .. } => self.serve_by_kube_vip(host, ADMIN).await,
            Provider::Haproxy {
                interface,
                router_id,
            } => {
                self.endpoint_programs(host).await?;
                let interface = interface_of(host, interface.as_deref()).await?;
                let vrrp = keepalived(plan, host.node, (&interface, *router_id));
                serve(host, HAPROXY, haproxy(plan)).await?;
                host.put(Upload::new(CHECK, CHECK_TEXT).mode("0755"), PHASE)
                    .await?;
                serve(host, KEEPALIVED, vrrp).await
            }
        }
    }

    /// Like [`Installer::serve_endpoint`], on the node on which `kubeadm init` will run. Until that has ended, `admin.conf` has no
    /// rights there, and kube-vip could not elect a node with the address that kubeadm waits for.
    ///
    /// # Errors
    ///
    /// Those of [`Installer::serve_endpoint`].
    pub(crate) async fn serve_endpoint_for_init(
        &self,
        host: &Machine<'_>,
        kubeadm: &str,
    ) -> Result<(), DriverError> {
        let has_super_admin = Version::parse(kubeadm) >= Version::parse("v1.29.0");
        match &self.plan.api.provider {
            Provider::KubeVip { .. } if has_super_admin => {
                self.serve_by_kube_vip(host, SUPER_ADMIN).await
            }
            _ => self.serve_endpoint(host).await,
        }
    }

    /// Writes the static pod of kube-vip, with this login to the API server.
    async fn serve_by_kube_vip(
        &self,
        host: &Machine<'_>,
        kubeconfig: &str,
    ) -> Result<(), DriverError> {
        let Provider::KubeVip { interface, image } = &self.plan.api.provider else {
            return Ok(());
        };
        let interface = interface_of(host, interface.as_deref()).await?;
        let manifest = kube_vip(self.plan, (&interface, image), kubeconfig);
        host.put(Upload::new(KUBE_VIP, manifest), PHASE).await
    }

    /// Updates what serves the address on these control-plane nodes, one after the other; skips those that do not respond.
    ///
    /// # Errors
    ///
    /// Those of [`Installer::serve_endpoint`].
    pub(crate) async fn update_endpoints(&self, nodes: &[&Node]) -> Result<(), DriverError> {
        if !self.plan.api.is_haproxy() {
            return Ok(());
        }
        for node in nodes {
            let host = Machine::new(self.cx, self.plan, node);
            if host.answers().await {
                host.reach_known().await?;
                self.serve_endpoint(&host).await?;
            }
        }
        Ok(())
    }

    async fn endpoint_programs(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        let facts = host.facts().await?;
        let missing = facts.missing_for_endpoint();
        if missing.is_empty() {
            return Ok(());
        }
        let archives = &self.plan.endpoint_packages;
        self.packages(host, &missing, ("endpoint_packages", archives))
            .await
    }
}

/// Stops serving the address on a node that leaves the control plane.
///
/// # Errors
///
/// If a service cannot be stopped.
pub(crate) async fn stop_serving(host: &Machine<'_>) -> Result<(), DriverError> {
    if !host.plan.api.is_haproxy() {
        return Ok(());
    }
    let (haproxy, keepalived) = (HAPROXY.0, KEEPALIVED.0);
    let line = format!("systemctl disable --now {keepalived} {haproxy}");
    host.run(PHASE, &line).await.map(|_| ())
}

/// Starts a service with this configuration, unless it runs with it. A copy of the file, which the service does not read, is
/// written last: without it, the service may not have loaded the file, because an attempt was interrupted.
async fn serve(
    host: &Machine<'_>,
    (service, path): (&str, &str),
    text: String,
) -> Result<(), DriverError> {
    let none = Secret::default;
    let (new, served) = (format!("{path}.new"), format!("{path}.served"));
    let current = format!("cat {path} {served}");
    let current = host.try_run(PHASE, &current, none()).await?;
    let state = format!("systemctl is-active {service}");
    let is_active = host.try_run(PHASE, &state, none()).await?.ok();
    let is_current = current.ok() && current.stdout == text.repeat(2);
    if is_current && is_active {
        return Ok(());
    }
    host.put(Upload::new(&new, text).mode("0644"), PHASE)
        .await?;
    // A reload interrupts no connection; a service that was installed just now runs with its default configuration.
    let verb = if is_active { "reload" } else { "restart" };
    let line = format!(
        "mv -f {new} {path} && systemctl enable {service} && systemctl {verb} {service} && cp {path} {served}"
    );
    host.run(PHASE, &line).await.map(|_| ())
}

/// The interface that gets the address: the given one, or the one with the node's own address.
async fn interface_of(host: &Machine<'_>, given: Option<&str>) -> Result<String, DriverError> {
    if let Some(name) = given {
        return Ok(name.to_owned());
    }
    let address = &host.node.address;
    let line = format!("ip -o addr show to {address}");
    let shown = host.run(PHASE, &line).await?.stdout;
    let name = shown.split_whitespace().nth(1).map(str::to_owned);
    name.filter(|name| is_interface(name)).ok_or_else(|| {
        let detail = format!(
            "no network interface has the node's address {address}: name the interface in \
             `control_plane_endpoint.interface`"
        );
        host.refusal("no-interface", PHASE, detail)
    })
}

/// HAProxy's configuration: TCP to the API servers that are Ready.
fn haproxy(plan: &Plan) -> String {
    let any = if plan.api.address.contains(':') {
        "[::]"
    } else {
        "0.0.0.0"
    };
    // Watches are idle for minutes. A connection to a server that does not respond goes to another one after 2 s; once such
    // a server has failed three checks, its connections are closed, so that clients open new ones.
    let mut text = format!(
        "global\n    user haproxy\n    group haproxy\n\
         defaults\n    mode tcp\n    timeout connect 2s\n    timeout check 2s\n    timeout client 1h\n    timeout server 1h\n    \
         option redispatch 1\n    option clitcpka\n    option srvtcpka\n\
         frontend kubernetes-api\n    bind {any}:{}\n    default_backend control-planes\n\
         backend control-planes\n    balance roundrobin\n    option httpchk GET /readyz\n    http-check expect rstatus ^(200|401)$\n    \
         default-server check check-ssl verify none inter 2s fastinter 500ms fall 3 rise 1 on-marked-down shutdown-sessions\n",
        plan.api.port
    );
    for node in &plan.control_planes {
        let server = with_port(&node.address, API_PORT);
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "    server {} {server}", node.name);
    }
    text
}

/// keepalived's configuration on a node: the address goes to the node with the highest priority whose HAProxy runs.
fn keepalived(plan: &Plan, node: &Node, (interface, router_id): (&str, u8)) -> String {
    let mut peers = String::new();
    let mut priority = PRIORITY;
    for (index, other) in plan.control_planes.iter().enumerate() {
        if other.vnfc == node.vnfc {
            priority = PRIORITY.saturating_sub(index);
        } else {
            let _ = writeln!(peers, "        {}", other.address);
        }
    }
    format!(
        "global_defs {{\n    router_id {name}\n    enable_script_security\n    script_user root\n}}\n\
         vrrp_script haproxy_runs {{\n    script \"{CHECK}\"\n    interval 1\n    fall 2\n    rise 2\n}}\n\
         vrrp_instance kubernetes_api {{\n    state BACKUP\n    nopreempt\n    interface {interface}\n    virtual_router_id {router_id}\n    \
         priority {priority}\n    advert_int 1\n    unicast_src_ip {address}\n    unicast_peer {{\n{peers}    }}\n    \
         virtual_ipaddress {{\n        {vip}\n    }}\n    track_script {{\n        haproxy_runs\n    }}\n}}\n",
        name = node.name,
        address = node.address,
        vip = plan.api.address,
    )
}

/// kube-vip's static pod, as JSON, which is valid YAML: it elects the node with the address by a lease of the cluster.
fn kube_vip(plan: &Plan, (interface, image): (&str, &str), kubeconfig: &str) -> String {
    let variables = [
        ("vip_arp", "true"),
        ("cp_enable", "true"),
        ("cp_namespace", "kube-system"),
        ("vip_leaderelection", "true"),
        ("vip_leasename", "plndr-cp-lock"),
        ("vip_interface", interface),
        ("address", &plan.api.address),
        ("port", &plan.api.port.to_string()),
    ]
    .map(|(name, value)| json!({ "name": name, "value": value }));
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "kube-vip", "namespace": "kube-system" },
        "spec": {
            "hostNetwork": true,
            "hostAliases": [{ "ip": "127.0.0.1", "hostnames": ["kubernetes"] }],
            "containers": [{
                "name": "kube-vip",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["manager"],
                "env": variables,
                "securityContext": { "capabilities": { "add": ["NET_ADMIN", "NET_RAW"] } },
                "volumeMounts": [{ "name": "kubeconfig", "mountPath": ADMIN }],
            }],
            "volumes": [{ "name": "kubeconfig", "hostPath": { "path": kubeconfig, "type": "FileOrCreate" } }],
        },
    });
    format!("{pod}\n")
}
