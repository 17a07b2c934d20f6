//! A site without internet access that has a registry: hosts without images of Kubernetes pull them from there, where the operator
//! has pushed those of the bundle. The image of VNF-B is in its package; the VNFM pushes it, and removes it with VNF-B.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use vnfm_tests::bare_machines::Machines;
use vnfm_tests::bundles::vnfmctl;
use vnfm_tests::site_registry::SiteRegistry;
use vnfm_tests::sources::copy;
use vnfm_tests::testbed::VNF_B;

use crate::bundles::{ARCHIVES, HOSTS, end, install, package, run_a};
use crate::cluster_actions::next_version;

/// The address of this machine on the hosts' LAN.
const LAN: &str = "10.77.0.1";
/// The image of VNF-B, and where the VNFM pushes it.
const OF_B: &str = "samples/web:1.0";
const REPOSITORY_OF_B: &str = "vnf/samples/web";

/// Names and tags of an archive.
fn names(archive: &Path) -> Vec<String> {
    let mut tar = Command::new("tar");
    let tar = tar.arg("-xOf").arg(archive).arg("manifest.json");
    let manifest: Value = serde_json::from_slice(&tar.output().unwrap().stdout).unwrap();
    let names = manifest[0]["RepoTags"].as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// An image of an archive, in OCI image layout.
fn layout(archive: &Path, name: &str, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let to = folder.join(archive.file_stem().unwrap());
    let from = format!("docker-archive:{}", archive.display());
    let to_named = format!("oci:{}:{name}", to.display());
    let mut skopeo = Command::new("skopeo");
    let output = skopeo.args(["copy", "--quiet", &from, &to_named]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{from}: {output:?}");
    to
}

/// The package of VNF-B with the image of its containers.
fn package_b(images: &Path, folder: &Path) -> PathBuf {
    let package = copy("vnf-b-cnf", folder);
    layout(&images.join("busybox.tar"), OF_B, &package.join("images"));
    let workload = package.join("Files/kubernetes/web.yaml");
    let text = std::fs::read_to_string(&workload).unwrap();
    let text = text.replace("localhost/busybox:1", OF_B);
    let text = text.replace("imagePullPolicy: Never", "imagePullPolicy: IfNotPresent");
    std::fs::write(&workload, text).unwrap();
    vnfmctl(&["package", "init", package.to_str().unwrap()]);
    package
}

#[test]
fn hosts_pull_kubernetes_and_vnf_b_from_a_registry_at_the_site() {
    let (Some(next), Some(machines)) = (next_version(), Machines::start_without_kubernetes(HOSTS))
    else {
        return;
    };
    let registry = SiteRegistry::start(LAN);
    let (images, vendor) = (next.join("images"), tempfile::tempdir().unwrap());
    // That of VNF-B is in its package.
    let of_cluster = ARCHIVES.iter().filter(|image| **image != "busybox");
    let layouts = of_cluster.clone().map(|image| {
        let archive = images.join(format!("{image}.tar"));
        layout(&archive, image, &vendor.path().join("images"))
    });
    let layouts: Vec<_> = layouts.collect();
    let packages = [
        package(&next, &[], vendor.path()),
        package_b(&images, vendor.path()),
    ];
    let site = install(&machines, &packages, &layouts);
    for image in of_cluster {
        for name in names(&images.join(format!("{image}.tar"))) {
            let (_, path) = name.split_once('/').unwrap();
            registry.push(&site.images.join(image), path);
        }
    }
    let before = registry.repositories();

    let cluster = run_a(&site, |installation| {
        installation["registry"] = registry.parameter();
        installation["registry"]["prefix"] = json!("vnf");
        installation["registry"]["mirrors"] = json!({ "registry.k8s.io": "", "localhost": "" });
    });
    site.run_b(&cluster);
    let pulled = format!("{}/{REPOSITORY_OF_B}@sha256:", registry.address);
    let has_it = |(name, _): &&(&str, &str)| {
        let images = machines.inside(name, "ctr -n k8s.io images ls -q");
        assert!(!images.contains("localhost/busybox"), "{name}: {images}");
        images.contains(&pulled)
    };
    assert_eq!(HOSTS.iter().filter(has_it).count(), 2, "both workers");
    println!("{before:?}, and {:?}", registry.tags(REPOSITORY_OF_B));

    site.testbed.terminate_and_delete(VNF_B);
    assert_eq!(registry.tags(REPOSITORY_OF_B), [""; 0]);
    end(&site, &machines);
}
