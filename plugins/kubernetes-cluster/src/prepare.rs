//! Prepares a host so that kubeadm can run: proxy settings, packages, kernel settings, container runtime, images, and the
//! software that the nodes have.
//! Proxies come before packages, whose download may need them.

use crate::config;
use crate::installer::Installer;
use crate::machine::{Facts, LARGE_FILES, Machine, quote};
use crate::programs::PACKAGES;
use crate::versions::{Version, target};
use vnfm_plugin_sdk::prelude::*;

impl Installer<'_> {
    /// Runs preflight, proxy, packages, runtime and software.
    pub(crate) async fn prepare(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        host.reach().await?;
        let mut facts = host.facts().await?;
        self.report(5, &format!("connected to `{}`", host.node.name))
            .await;
        if facts.has_joined() {
            return Ok(());
        }
        self.proxy(host, &facts).await?;
        if !facts.missing().is_empty() || self.is_outdated(&facts) {
            let archives = ("packages", self.plan.packages.as_slice());
            self.packages(host, &facts.missing(), archives).await?;
            facts = host.facts().await?;
            let missing = facts.missing();
            if !missing.is_empty() {
                let detail = format!(
                    "the packages are installed, but {} is still missing",
                    missing.join(", ")
                );
                return Err(host.refusal("packages-missing", "packages", detail));
            }
        }
        self.runtime(host, &facts).await?;
        self.add_software(host).await
    }

    /// Whether the package has archives of another version than the host, as after an upgrade of the cluster.
    fn is_outdated(&self, facts: &Facts) -> bool {
        let archived = target(None, &self.plan.packages).ok().flatten();
        archived.is_some_and(|version| Version::parse(facts.kubeadm()) != Some(version))
    }

    /// Configures proxies for the runtime, the kubelet and apt.
    async fn proxy(&self, host: &Machine<'_>, facts: &Facts) -> Result<(), DriverError> {
        let Some((unit, apt)) = config::proxies(self.plan) else {
            return Ok(());
        };
        for service in ["containerd", "kubelet"] {
            let path = format!("/etc/systemd/system/{service}.service.d/90-vnfm-proxy.conf");
            host.put(Upload::new(path, unit.clone()), "proxy").await?;
        }
        let apt = Upload::new("/etc/apt/apt.conf.d/90-vnfm-proxy", apt);
        host.put(apt, "proxy").await?;
        let mut line = "systemctl daemon-reload".to_owned();
        if facts.is("runtime") {
            // It is running, and has read its environment already.
            line += " && systemctl restart containerd";
        }
        host.run("proxy", &line).await.map(|_| ())
    }

    /// Installs missing programs from the package, or else from the host's repository; `archives` is the parameter that
    /// names the package's folder, and its content.
    pub(crate) async fn packages(
        &self,
        host: &Machine<'_>,
        missing: &[&str],
        (parameter, archives): (&str, &[String]),
    ) -> Result<(), DriverError> {
        self.report(8, &format!("installing programs on `{}`", host.node.name))
            .await;
        if !archives.is_empty() {
            let paths = self.upload(host, archives, parameter).await?;
            let line = format!("dpkg -i {}", paths.join(" "));
            return host.step_on(PACKAGES, &paths, &line).await;
        }
        let names = missing.join(" ");
        let policy = host
            .try_run(
                "packages",
                &format!("apt-cache policy {names}"),
                Secret::default(),
            )
            .await?;
        let candidates = policy.stdout.matches("Candidate: ").count();
        if policy.ok()
            && candidates >= missing.len()
            && !policy.stdout.contains("Candidate: (none)")
        {
            let line = format!("env DEBIAN_FRONTEND=noninteractive apt-get install -y {names}");
            return host.step("packages", &line).await;
        }
        let detail = format!(
            "the host lacks {} and has no repository for it: put Debian archives into the package (parameter \
             `{parameter}`), or use an image that has them",
            missing.join(", ")
        );
        Err(host.refusal("packages-missing", "packages", detail))
    }

    /// Uploads files of the package to the host's disk and returns their paths there, quoted.
    pub(crate) async fn upload(
        &self,
        host: &Machine<'_>,
        files: &[String],
        phase: &str,
    ) -> Result<Vec<String>, DriverError> {
        let mut paths = Vec::new();
        for file in files {
            let name = file.rsplit('/').next().unwrap_or_default();
            let path = format!("{LARGE_FILES}/{phase}/{name}");
            host.put(Upload::artifact(&path, file), phase).await?;
            paths.push(quote(&path));
        }
        Ok(paths)
    }

    /// Sets up kernel settings, swap, container runtime and images.
    async fn runtime(&self, host: &Machine<'_>, facts: &Facts) -> Result<(), DriverError> {
        host.put(
            Upload::new("/etc/sysctl.d/90-vnfm.conf", config::SYSCTL).mode("0644"),
            "runtime",
        )
        .await?;
        // The bridge setting exists only if its module is loaded; the other one always does.
        let mut line = "modprobe overlay; modprobe br_netfilter; \
                        sysctl -q -e -w net.bridge.bridge-nf-call-iptables=1; \
                        sysctl -q -w net.ipv4.ip_forward=1"
            .to_owned();
        if facts.is("swap") {
            line += " && swapoff -a";
        }
        if !facts.is("runtime") {
            line += " && systemctl enable --now containerd";
        }
        host.run("runtime", &line).await?;
        self.registry(host).await?;
        self.import_images(host).await
    }
}
