//! VNF-A and VNF-B from a bundle: on a real cloud whose hosts have no network but the site's, and on bare hosts without Kubernetes,
//! whose programs and images are in the package of VNF-A.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use vnfm_tests::bare_machines::{Machine, Machines, request};
use vnfm_tests::bundles::{Site, vnfmctl};
use vnfm_tests::real::Real;
use vnfm_tests::sources::{copy, root};
use vnfm_tests::testbed::{Testbed, VIM, VNF_A, VNF_B};

use crate::cluster_actions::next_version;
use crate::control_planes::completes;

pub(crate) const HOSTS: &[Machine] = &[
    ("bare-5", "10.77.0.245"),
    ("bare-6", "10.77.0.246"),
    ("bare-7", "10.77.0.247"),
];
/// The folder of the package that `images_path` names.
const IMAGES: &str = "Files/kubernetes/images";
/// What the cluster and VNF-B run.
pub(crate) const ARCHIVES: &[&str] = &[
    "busybox",
    "cni",
    "coredns",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "pause",
];
/// The package is larger than the usual limit.
const CONFIGURATION: &str = "limits: {lease_seconds: 2, package_bytes: 2147483648}\nplugins:\n  \
    implementations: {mgmt-drivers-kubernetes: kubernetes-cluster}\n  runners: {kubernetes-cluster: in-process}\n";

#[test]
fn vnf_a_and_vnf_b_run_from_a_bundle() {
    let Some(real) = Real::find() else { return };
    let site = Site::install(tempfile::tempdir().unwrap(), &real.clouds, 22);
    site.run_scenario();
    real.wait_until_clean();
}

#[test]
fn a_bundle_brings_kubernetes_to_hosts_that_have_neither_programs_nor_images() {
    let (Some(next), Some(machines)) = (next_version(), Machines::start_without_kubernetes(HOSTS))
    else {
        return;
    };
    for (name, _) in HOSTS {
        let found = "for name in kubeadm kubelet kubectl; do command -v $name; done; ctr -n k8s.io images ls -q";
        assert_eq!(machines.inside(name, found), "", "{name}");
    }
    let vendor = tempfile::tempdir().unwrap();
    let packages = [
        package(&next, ARCHIVES, vendor.path()),
        root().join("vnfd-samples/vnf-b-cnf"),
    ];
    let site = install(&machines, &packages, &[]);
    let cluster = run_a(&site, |installation| {
        installation["images_path"] = json!(IMAGES);
    });
    site.run_b(&cluster);

    let version = std::fs::read_to_string(next.join("version")).unwrap();
    for (name, _) in HOSTS {
        let kubelet = machines.inside(name, "kubelet --version");
        assert_eq!(kubelet.trim(), format!("Kubernetes {}", version.trim()));
        let images = machines.inside(name, "ctr -n k8s.io images ls -q name~=^localhost/");
        let images = images.lines().filter_map(|image| {
            let (image, _) = image.strip_prefix("localhost/")?.rsplit_once(':')?;
            Some(image.to_owned())
        });
        let images: BTreeSet<_> = images.collect();
        let expected = ARCHIVES.iter().map(|&image| image.to_owned());
        assert_eq!(images, expected.collect(), "{name}");
    }
    site.testbed.terminate_and_delete(VNF_B);
    end(&site, &machines);
}

/// A site whose bundle has these packages and images, and whose VIM is the inventory.
pub(crate) fn install(machines: &Machines, packages: &[PathBuf], images: &[PathBuf]) -> Site {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.yaml"), CONFIGURATION).unwrap();
    let began = Instant::now();
    let site = Site::install_these(folder, (packages, images), |server, folder| {
        machines.register(&server, folder.path());
        Testbed::on_registered(folder, server)
    });
    println!("bundle in {:.1} s", began.elapsed().as_secs_f64());
    site
}

/// Instantiates VNF-A on three of the hosts; the id of its VIM.
pub(crate) fn run_a(site: &Site, change: impl FnOnce(&mut Value)) -> String {
    let testbed = &site.testbed;
    let package = site.package_a();
    let create = ["vnf", "create", "--package", package, "--name", VNF_A];
    testbed.server.ctl(&create);
    let vim = testbed.server.ctl(&["vim", "show", VIM]);
    let mut request = request(vim["id"].as_str().unwrap());
    change(&mut request["additionalParams"]["k8s_cluster_installation_param"]);
    let took = completes(testbed, &testbed.instantiate(VNF_A, &request));
    println!("three hosts in {:.1} s", took.as_secs_f64());
    testbed.assert_a_up(3)
}

/// Deletes VNF-A; no host is leased any more.
pub(crate) fn end(site: &Site, machines: &Machines) {
    let testbed = &site.testbed;
    testbed.terminate_and_delete(VNF_A);
    assert_eq!(machines.leased(), [""; 0]);
    testbed.finish();
}

/// VNF-A's package with the Debian archives and these images, as the guide for such sites shows it.
pub(crate) fn package(next: &Path, images: &[&str], folder: &Path) -> PathBuf {
    let package = copy("vnf-a-k8s-cluster", folder);
    let add = |from: PathBuf, into: &str| {
        let into = package.join(into);
        std::fs::create_dir_all(&into).unwrap();
        std::fs::copy(&from, into.join(from.file_name().unwrap())).unwrap();
    };
    for archive in std::fs::read_dir(next.join("archives")).unwrap() {
        add(archive.unwrap().path(), "Files/kubernetes/packages");
    }
    for image in images {
        add(next.join(format!("images/{image}.tar")), IMAGES);
    }
    vnfmctl(&["package", "init", package.to_str().unwrap()]);
    package
}
