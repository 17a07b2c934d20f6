//! A registry at the site: what every node and the VIM get, and `vnfm-registry` itself, in the machine's own shell.

use crate::lab::Lab;
use crate::root::Root;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vnfm_core::ports::Effects;

const ADDRESS: &str = "registry.site.example:5000";
const PASSWORD: &str = "registry-secret";
const SCRIPT: &str = include_str!("../../src/vnfm-registry.sh");
const CONFIG: &str = "etc/containerd/config.toml";
/// A configuration as distributions have it, without a table for registries.
const PLAIN: &str =
    "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"pause\"\n";
const EMPTY: &str =
    "    [plugins.\"io.containerd.grpc.v1.cri\".registry]\n      config_path = \"\"\n";

impl Lab {
    async fn install_with_registry(&self) -> Effects {
        let mut params = self.params();
        params["k8s_cluster_installation_param"]["registry"] = json!({
            "address": ADDRESS, "prefix": "vnf", "ca": "the CA", "username": "vnfm", "password": PASSWORD,
            "mirrors": { "registry.k8s.io": "" },
        });
        let request = self.request("instantiate_end", &params);
        self.run(request, None).await.unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_pull_from_the_registry_and_the_vim_names_it() {
    let lab = Lab::new().await;
    let effects = lab.install_with_registry().await;
    lab.check(&effects);
    for server in ["server-m1", "server-w1", "server-w2"] {
        let read = |name: &str| {
            let file = lab
                .hosts
                .file(server, &format!("/etc/containerd/certs.d/{name}"));
            String::from_utf8(file.unwrap()).unwrap()
        };
        assert_eq!(read(&format!("{ADDRESS}/ca.pem")), "the CA");
        let own = read(&format!("{ADDRESS}/hosts.toml"));
        assert!(
            own.contains(&format!("server = \"https://{ADDRESS}\"")),
            "{own}"
        );
        let mirror = read("registry.k8s.io/hosts.toml");
        assert!(
            mirror.starts_with(&format!("[host.\"https://{ADDRESS}\"]")),
            "{mirror}"
        );
        assert!(own.contains("authorization") && mirror.contains("authorization"));
    }
    let vim = &effects.register_vims[0];
    for (member, value) in [
        ("registry", ADDRESS),
        ("registry_prefix", "vnf"),
        ("registry_ca_cert", "the CA"),
    ] {
        assert_eq!(vim.interface_info[member], value);
    }
    assert_eq!(vim.access_info["registry_username"], "vnfm");
    assert_eq!(vim.access_info["registry_password"], PASSWORD);
    assert!(!lab.texts().contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_reaches_vim_and_nodes_with_the_next_login() {
    let lab = Lab::new().await;
    lab.install_with_registry().await;
    lab.hosts.power_off("server-w2");
    let mut installation = lab.params()["k8s_cluster_installation_param"].clone();
    installation["registry"] =
        json!({ "address": ADDRESS, "username": "vnfm", "password": "another" });
    let params =
        json!({ "cluster_action": "renew_login", "k8s_cluster_installation_param": installation });
    let renewed = lab.hook("operate_end", params).await.unwrap();
    let access = &renewed.register_vims[0].access_info;
    assert_eq!(access["registry_password"], "another");
    let login = STANDARD.encode("vnfm:another");
    for server in ["server-m1", "server-w1"] {
        let path = format!("/etc/containerd/certs.d/{ADDRESS}/hosts.toml");
        let text = String::from_utf8(lab.hosts.file(server, &path).unwrap()).unwrap();
        assert!(text.contains(&login), "{server}: {text}");
    }
    let message = renewed.message.unwrap();
    assert!(message.ends_with("do not respond: `w2`"), "{message}");
}

/// A host whose containerd has this configuration.
fn host(config: &str) -> Root {
    let root = Root::new("vnfm-registry");
    root.write(CONFIG, config);
    let config = root.path(CONFIG).display().to_string();
    // It shows what it uses: the file, and its default if the file has no table for registries.
    root.write("empty", EMPTY);
    let empty = root.path("empty").display().to_string();
    root.program(
        "containerd",
        &format!("cat {config}; grep -q '\\.registry' {config} || cat {empty}"),
    );
    root.program("systemctl", "echo \"$@\" >>\"${0%/*}/units\"");
    root.script("vnfm-registry", SCRIPT, &["/etc/containerd"]);
    root
}

/// How often containerd was restarted.
fn restarts(root: &Root) -> usize {
    let units = std::fs::read_to_string(root.path("bin/units")).unwrap_or_default();
    units.matches("restart containerd").count()
}

#[test]
fn containerd_reads_a_folder_afterwards_and_is_restarted_once() {
    for config in [PLAIN.to_owned(), format!("{PLAIN}{EMPTY}  other = 1\n")] {
        let root = host(&config);
        let folder = root.path("etc/containerd/certs.d").display().to_string();
        for _ in 0..2 {
            let output = root.sh(&["vnfm-registry"]);
            let shown = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(shown.trim(), folder, "{output:?}");
        }
        let now = std::fs::read_to_string(root.path(CONFIG)).unwrap();
        let set = format!("config_path = \"{folder}\"");
        assert_eq!(now.matches("config_path").count(), 1, "{now}");
        assert!(now.contains(&set) && now.contains("sandbox_image"), "{now}");
        assert_eq!(restarts(&root), 1);
        assert!(!root.is_there("etc/containerd/config.toml.before-vnfm"));
    }
}

#[test]
fn a_folder_that_containerd_reads_is_kept() {
    let root = host(PLAIN);
    let folder = root.path("opt/certs.d").display().to_string();
    let folders = format!("\"{folder}:/etc/docker/certs.d\"");
    let config = PLAIN.to_owned() + &EMPTY.replace("\"\"", &folders);
    root.write(CONFIG, &config);
    assert_eq!(root.sh_ok(&["vnfm-registry"]).trim(), folder);
    assert_eq!(restarts(&root), 0);
    assert_eq!(std::fs::read_to_string(root.path(CONFIG)).unwrap(), config);
}

#[test]
fn a_restart_that_an_attempt_did_not_reach_is_made_up_for() {
    let root = host(PLAIN);
    root.program("systemctl", "exit 1");
    assert!(!root.sh(&["vnfm-registry"]).status.success());
    root.program("systemctl", "echo \"$@\" >>\"${0%/*}/units\"");
    assert!(root.sh(&["vnfm-registry"]).status.success());
    assert_eq!(restarts(&root), 1);
}

#[test]
fn what_excludes_a_folder_is_refused() {
    let mirrors = "[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\n  endpoint = [\"https://a\"]\n";
    let config = format!("{PLAIN}{EMPTY}{mirrors}");
    let root = host(&config);
    let output = root.sh(&["vnfm-registry"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && message.contains("`mirrors`"),
        "{output:?}"
    );
    assert_eq!(std::fs::read_to_string(root.path(CONFIG)).unwrap(), config);
    assert_eq!(restarts(&root), 0);
}

#[test]
fn a_configuration_that_containerd_does_not_use_is_put_back() {
    for (shown, reason) in [
        (EMPTY, "does not accept"),
        ("version = 2\n", "CRI plugin is disabled"),
    ] {
        let root = host(PLAIN);
        root.write("empty", shown);
        let always = format!("cat {}", root.path("empty").display());
        root.program("containerd", &always);
        let output = root.sh(&["vnfm-registry"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && message.contains(reason),
            "{output:?}"
        );
        assert_eq!(std::fs::read_to_string(root.path(CONFIG)).unwrap(), PLAIN);
        assert!(!root.is_there("etc/containerd/config.toml.before-vnfm"));
        assert_eq!(restarts(&root), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_without_a_password_is_refused() {
    let lab = Lab::empty().await;
    let mut params = lab.params();
    let registry: Value = json!({ "address": ADDRESS, "username": "vnfm" });
    params["k8s_cluster_installation_param"]["registry"] = registry;
    let request = lab.request("instantiate_end", &params);
    let refused = lab.run(request, None).await.unwrap().unwrap_err();
    assert!(
        refused.to_string().contains("`registry.password`"),
        "{refused}"
    );
    assert!(lab.books.calls().is_empty(), "a host was touched");
}
