//! The samples without a separate test are instantiated and terminated in the simulated world, and
//! what they demonstrate is checked.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use vnfm_tests::cloud::Cloud;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{Testbed, VIM};

use super::{testbed, testbed_in};

/// A sample's instance, with the name of the sample.
struct SampleInstance<'a> {
    testbed: &'a Testbed,
    name: &'a str,
    package: String,
}

impl<'a> SampleInstance<'a> {
    /// Onboards the package at `from`, and creates an instance of it.
    fn create(testbed: &'a Testbed, name: &'a str, from: &str) -> Self {
        let package = testbed.onboard(from);
        testbed
            .server
            .ctl(&["vnf", "create", "--package", &package, "--name", name]);
        Self {
            testbed,
            name,
            package,
        }
    }

    fn vim(&self, name: &str) -> String {
        self.testbed.server.ctl(&["vim", "show", name])["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Instantiates it with this request; returns `instantiatedVnfInfo`.
    fn instantiate(&self, request: &Value) -> Value {
        self.testbed
            .wait_for_state(&self.testbed.instantiate(self.name, request), "COMPLETED");
        self.testbed.server.ctl(&["vnf", "show", self.name])["instantiatedVnfInfo"].clone()
    }

    fn ends(self) {
        self.testbed.terminate_and_delete(self.name);
        self.forget();
    }

    fn forget(self) {
        self.testbed
            .server
            .ctl(&["package", "delete", &self.package]);
    }
}

/// How many VNFCs each VDU has.
fn counts(info: &Value) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for vnfc in info["vnfcResourceInfo"].as_array().unwrap() {
        let vdu = vnfc["vduId"].as_str().unwrap();
        match counts.iter_mut().find(|(known, _)| known == vdu) {
            Some((_, count)) => *count += 1,
            None => counts.push((vdu.to_owned(), 1)),
        }
    }
    counts.sort();
    counts
}

#[track_caller]
fn assert_counts(info: &Value, expected: &[(&str, usize)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(vdu, n)| ((*vdu).to_owned(), *n))
        .collect();
    assert_eq!(counts(info), expected, "{info:#}");
}

/// Instantiates a sample with its own request on the simulated cloud, checks it, and terminates it.
fn on_openstack(sample: &str, look: impl FnOnce(&Value, &Cloud)) {
    let (sim, testbed) = testbed(&[], "info");
    let instance = SampleInstance::create(&testbed, sample, sample);
    let request = testbed.request(sample, &instance.vim(VIM));
    let info = instance.instantiate(&request);
    look(&info, &Cloud::login(&sim.clouds()));
    instance.ends();
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn the_requested_flavour_is_created() {
    on_openstack("vnf-flavours", |info, _| {
        assert_counts(info, &[("back", 2), ("front", 2)]);
        assert_eq!(info["flavourId"], "redundant");
        assert_eq!(info["extCpInfo"].as_array().unwrap().len(), 4, "{info:#}");
    });
}

#[test]
fn the_requested_instantiation_level_is_created() {
    on_openstack("vnf-levels", |info, _| {
        assert_counts(info, &[("web", 3), ("worker", 4)]);
        let levels = |clients: u32, load: u32| json!([{"aspectId": "clients", "scaleLevel": clients}, {"aspectId": "load", "scaleLevel": load}]);
        assert_eq!(info["scaleStatus"], levels(1, 1));
        assert_eq!(info["maxScaleLevels"], levels(3, 2));
        assert_eq!(info["vnfState"], "STARTED");
    });
}

#[test]
fn each_vnfc_of_the_pair_has_its_own_volume() {
    on_openstack("vnf-ha-pair", |info, _| {
        assert_counts(info, &[("active", 1), ("standby", 1)]);
        let volumes = info["virtualStorageResourceInfo"].as_array().unwrap();
        let mut storages: Vec<_> = volumes
            .iter()
            .map(|one| one["virtualStorageDescId"].as_str().unwrap())
            .collect();
        storages.sort_unstable();
        assert_eq!(storages, ["activeData", "standbyData"]);
        for vnfc in info["vnfcResourceInfo"].as_array().unwrap() {
            assert_eq!(
                vnfc["storageResourceIds"].as_array().unwrap().len(),
                1,
                "{vnfc:#}"
            );
        }
    });
}

#[test]
fn two_firewalls_are_on_the_same_shared_links() {
    let (sim, testbed) = testbed(&[], "info");
    let ctl = |args: &[&str]| testbed.server.ctl(args);
    for (name, cidr) in [("lan-left", "10.10.0.0/24"), ("lan-right", "10.20.0.0/24")] {
        let link = ctl(&["link", "create", name, "--vim", VIM, "--subnet", cidr]);
        assert_eq!(link["state"], "AVAILABLE", "{link:#}");
    }
    let first = SampleInstance::create(&testbed, "vnf-shared-link", "vnf-shared-link");
    let request = testbed.request("vnf-shared-link", &first.vim(VIM));
    let info = first.instantiate(&request);
    assert_eq!(info["extCpInfo"].as_array().unwrap().len(), 2, "{info:#}");
    ctl(&[
        "vnf",
        "create",
        "--package",
        &first.package,
        "--name",
        "second",
    ]);
    testbed.wait_for_state(&testbed.instantiate("second", &request), "COMPLETED");
    let left = ctl(&["link", "show", "lan-left"]);
    assert_eq!(left["usedBy"].as_array().unwrap().len(), 2, "{left:#}");
    let cloud = Cloud::login(&sim.clouds());
    let ports = cloud.list("network", "/v2.0/ports", "ports");
    let on_left = ports
        .iter()
        .filter(|port| port["network_id"] == left["resourceId"]);
    assert_eq!(on_left.count(), 2, "{ports:#?}");
    testbed.terminate_and_delete("second");
    let refused = testbed.server.refused(&["link", "delete", "lan-left"]);
    assert!(
        refused.contains("vnf-shared-link"),
        "names its user: {refused}"
    );
    testbed.terminate_and_delete("vnf-shared-link");
    for name in ["lan-left", "lan-right"] {
        ctl(&["link", "delete", name]);
    }
    assert_eq!(ctl(&["link", "list"]), json!([]));
    first.forget();
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_base_hot_creates_trunks_sriov_ports_and_shared_addresses() {
    on_openstack("vnf-ports", |info, cloud| {
        assert_counts(info, &[("router", 1)]);
        let cps = info["vnfcResourceInfo"][0]["vnfcCpInfo"]
            .as_array()
            .unwrap();
        let mut names: Vec<_> = cps.iter().map(|cp| cp["cpdId"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["fast", "management", "tagged"]);
        let ports = cloud.list("network", "/v2.0/ports", "ports");
        let port = |end: &str| {
            let of_name =
                |one: &&Value| one["name"].as_str().unwrap().contains(&format!("-{end}-"));
            ports
                .iter()
                .find(of_name)
                .unwrap_or_else(|| panic!("no port {end}: {ports:#?}"))
        };
        let (fast, shared) = (port("fast"), port("shared"));
        assert_eq!(fast["binding:vnic_type"], "direct");
        let address = &shared["fixed_ips"][0]["ip_address"];
        assert_eq!(&fast["allowed_address_pairs"][0]["ip_address"], address);
        assert_eq!(shared["device_id"], "", "no server has the shared address");
        let stack = &cloud.list("orchestration", "/stacks", "stacks")[0];
        let word = |name: &str| stack[name].as_str().unwrap();
        let path = format!("/stacks/{}/{}/resources", word("stack_name"), word("id"));
        let created = cloud.list("orchestration", &path, "resources");
        let is_trunk = |one: &Value| one["resource_type"] == "OS::Neutron::Trunk";
        assert_eq!(
            created.iter().filter(|one| is_trunk(one)).count(),
            1,
            "{created:#?}"
        );
    });
}

#[test]
fn nested_resource_groups_are_counted_and_their_disks_assigned() {
    on_openstack("vnf-nested-groups", |info, _| {
        assert_counts(info, &[("door", 1), ("node", 2)]);
        let volumes = info["virtualStorageResourceInfo"].as_array().unwrap();
        assert_eq!(volumes.len(), 6, "three disks for each node");
        assert!(
            volumes
                .iter()
                .all(|one| one["virtualStorageDescId"] == "disk"),
            "{volumes:#?}"
        );
        for vnfc in info["vnfcResourceInfo"].as_array().unwrap() {
            let disks = vnfc["storageResourceIds"].as_array().map_or(0, Vec::len);
            assert_eq!(
                disks,
                if vnfc["vduId"] == "node" { 3 } else { 0 },
                "{vnfc:#}"
            );
        }
    });
}

#[test]
fn a_resource_for_each_vnfc_is_scaled_by_its_index() {
    let (sim, testbed) = testbed(&[], "info");
    let instance = SampleInstance::create(&testbed, "vnf-per-vnfc", "vnf-per-vnfc");
    let request = testbed.request("vnf-per-vnfc", &instance.vim(VIM));
    let info = instance.instantiate(&request);
    assert_counts(&info, &[("database", 1), ("web", 2)]);
    let names = || {
        let servers = Cloud::login(&sim.clouds()).list("compute", "/servers/detail", "servers");
        let names = servers
            .iter()
            .map(|server| server["name"].as_str().unwrap().to_owned());
        let mut names: Vec<_> = names.filter(|name| name.contains("web")).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(), ["first-web", "web"]);
    let scale = |direction| {
        [
            "vnf",
            "scale",
            "vnf-per-vnfc",
            "--aspect",
            "clients",
            direction,
            "--watch",
        ]
    };
    testbed.server.ctl(&scale("--out"));
    assert_eq!(names(), ["first-web", "web", "web"]);
    testbed.server.ctl(&scale("--in"));
    assert_eq!(names(), ["first-web", "web"]);
    instance.ends();
    testbed.finish();
    sim.assert_clean();
}

/// The network that the request names takes the place of the template's own, and a scaling brings the name of its server.
#[test]
fn a_base_hot_takes_a_managed_network_and_values_of_a_scaling() {
    let (sim, testbed) = testbed(&[], "info");
    let instance = SampleInstance::create(&testbed, "vnf-per-vnfc", "vnf-per-vnfc");
    let mut request = testbed.request("vnf-per-vnfc", &instance.vim(VIM));
    request["extManagedVirtualLinks"] =
        json!([{"id": "theirs", "vnfVirtualLinkDescId": "inside", "resourceId": "nfv-net"}]);
    let info = instance.instantiate(&request);
    assert_eq!(info["vnfVirtualLinkResourceInfo"], Value::Null, "{info:#}");
    let link = &info["extManagedVirtualLinkInfo"][0];
    assert_eq!(link["id"], "theirs");
    assert_eq!(link["vnfLinkPorts"].as_array().map(Vec::len), Some(3));
    let completes = |command: &[&str]| {
        let accepted = testbed.server.ctl(command);
        let op = accepted["vnfLcmOpOccId"].as_str().unwrap();
        testbed.wait_for_state(op, "COMPLETED");
    };
    let values = r#"nfv={"VDU": {"web-2": {"name": "third"}}}"#;
    let scale = [
        "vnf",
        "scale",
        "vnf-per-vnfc",
        "--aspect",
        "clients",
        "--out",
    ];
    completes(&[&scale[..], &["--param", values]].concat());
    let servers = || Cloud::login(&sim.clouds()).list("compute", "/servers/detail", "servers");
    let is_third = |server: &Value| server["name"] == "third";
    assert!(servers().iter().any(is_third), "{:#?}", servers());
    // A later operation keeps it.
    completes(&["vnf", "heal", "vnf-per-vnfc", "--cause", "all of them"]);
    assert!(servers().iter().any(is_third), "{:#?}", servers());
    instance.ends();
    testbed.finish();
    sim.assert_clean();
}

/// The data of a database outlive it: a volume is retained, used by the next instance, and deleted in the end.
#[test]
fn a_retained_volume_comes_into_the_next_instance() {
    let (sim, testbed) = testbed(&[], "info");
    let (server, first) = (&testbed.server, "first-pair");
    let instance = SampleInstance::create(&testbed, first, "vnf-ha-pair");
    let request = testbed.request("vnf-ha-pair", &instance.vim(VIM));
    instance.instantiate(&request);
    let begun = |command: &[&str]| {
        server.ctl(command)["vnfLcmOpOccId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let op = begun(&["vnf", "terminate", first, "--retain", "activeData"]);
    testbed.wait_for_state(&op, "COMPLETED");
    server.ctl(&["vnf", "delete", first]);
    let listed = server.ctl(&["volume", "list"]);
    let [volume] = &listed.as_array().unwrap()[..] else {
        panic!("{listed:#}");
    };
    let id = volume["id"].as_str().unwrap();
    assert_eq!(volume["sizeGib"], 1);
    assert_eq!(server.ctl(&["orphans"]), json!([]));

    let second = "second-pair";
    let machine = instantiated_with_volume(&testbed, (second, &instance.package), &request, id);
    let attached = Cloud::login(&sim.clouds()).volumes_of(&machine);
    assert_eq!(json!(attached), json!([volume["resourceId"]]));
    let refused = server.run(&["volume", "delete", id]);
    assert!(
        refused.code != 0 && refused.stderr.contains(second),
        "{}",
        refused.stderr
    );
    testbed.terminate_and_delete(second);
    server.ctl(&["volume", "delete", id]);
    instance.forget();
    testbed.finish();
    sim.assert_clean();
}

/// A volume is there before the first VNF that uses it.
#[test]
fn an_empty_volume_comes_into_the_first_instance() {
    let (sim, testbed) = testbed(&[], "info");
    let (server, unused) = (&testbed.server, "unused");
    let instance = SampleInstance::create(&testbed, unused, "vnf-ha-pair");
    let vim = instance.vim(VIM);
    let request = testbed.request("vnf-ha-pair", &vim);
    server.ctl(&["vnf", "delete", unused]);
    let create = [
        "volume",
        "create",
        "--vim",
        &vim,
        "--size",
        "2",
        "--storage",
    ];
    let created = server.ctl(&[&create[..], &["activeData"]].concat());
    let id = created["id"].as_str().unwrap();
    assert_eq!(
        (&created["state"], &created["sizeGib"]),
        (&json!("AVAILABLE"), &json!(2))
    );
    let full = server.run(&[&create[..], &["activeData", "--type", "full"]].concat());
    assert!(
        full.code != 0 && full.stderr.contains("weighted backend"),
        "{}",
        full.stderr
    );
    let pair = "pair";
    let machine = instantiated_with_volume(&testbed, (pair, &instance.package), &request, id);
    let attached = Cloud::login(&sim.clouds()).volumes_of(&machine);
    assert_eq!(json!(attached), json!([created["resourceId"]]));
    testbed.terminate_and_delete(pair);
    let listed = server.ctl(&["volume", "list"]);
    assert_eq!(listed, json!([created]));
    assert_eq!(server.ctl(&["orphans"]), json!([]));
    server.ctl(&["volume", "delete", id]);
    instance.forget();
    testbed.finish();
    sim.assert_clean();
}

/// Instantiates another pair with a retained volume; the active server.
fn instantiated_with_volume(
    testbed: &Testbed,
    (name, package): (&str, &str),
    request: &Value,
    id: &str,
) -> String {
    let server = &testbed.server;
    server.ctl(&["vnf", "create", "--package", package, "--name", name]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), request.to_string()).unwrap();
    let path = file.path().to_string_lossy();
    let accepted = server.ctl(&[
        "vnf",
        "instantiate",
        name,
        "--request",
        &path,
        "--volume",
        id,
    ]);
    testbed.wait_for_state(accepted["vnfLcmOpOccId"].as_str().unwrap(), "COMPLETED");
    let shown = server.ctl(&["vnf", "show", name]);
    assert_eq!(server.ctl(&["volume", "show", id])["usedBy"], shown["id"]);
    let mut vnfcs = shown["instantiatedVnfInfo"]["vnfcResourceInfo"]
        .as_array()
        .unwrap()
        .iter();
    let active = vnfcs.find(|vnfc| vnfc["vduId"] == "active").unwrap();
    active["computeResource"]["resourceId"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A standalone cluster, and the id of its VIM.
fn with_cluster() -> (Simulator, Testbed, String) {
    let (sim, testbed) = testbed_in(&["--cluster"], "limits: {lease_seconds: 2}");
    let file = sim.endpoint("kubeconfig");
    let vim = testbed.server.ctl(&[
        "vim",
        "register",
        "--name",
        "cluster",
        "--config-file",
        file,
    ]);
    let id = vim["id"].as_str().unwrap().to_owned();
    (sim, testbed, id)
}

fn without_cluster(sim: &Simulator, testbed: &Testbed) {
    testbed.server.ctl(&["vim", "delete", "cluster"]);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn asd_manifests_are_applied_in_order() {
    let (sim, testbed, vim) = with_cluster();
    let instance = SampleInstance::create(&testbed, "asd-web", "asd-web");
    let mut request = testbed.request("asd-web", &vim);
    let complete = request["additionalParams"].take();
    request["additionalParams"] = json!({"greeting": "hello"});
    let id = testbed.server.ctl(&["vnf", "show", "asd-web"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/vnflcm/v2/vnf_instances/{id}/instantiate");
    let (status, problem) = testbed.server.http("POST", &path, &request.to_string());
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        status == 422 && detail.contains("variable `replicas` has no value"),
        "{problem:#}"
    );
    assert!(
        !detail.contains("order.yaml"),
        "an ASD has no order file: {detail}"
    );
    request["additionalParams"] = complete;
    let info = instance.instantiate(&request);
    assert_counts(&info, &[("web", 2)]);
    let applied: Vec<String> = sim
        .calls("kubernetes.apply", "")
        .iter()
        .map(|call| call["subject"].as_str().unwrap().to_owned())
        .collect();
    let first = |kind: &str| applied.iter().position(|subject| subject.contains(kind));
    let (page, web) = (first("configmaps/"), first("deployments/"));
    assert!(page.is_some() && page < web, "{applied:#?}");
    instance.ends();
    without_cluster(&sim, &testbed);
}

#[test]
fn a_request_names_the_manifests_to_apply() {
    let (sim, testbed, vim) = with_cluster();
    let instance = SampleInstance::create(&testbed, "named", "cnf-by-request");
    let mut request = testbed.request("cnf-by-request", &vim);
    let named = request["additionalParams"]["lcm-kubernetes-def-files"][0].take();
    request["additionalParams"]["lcm-kubernetes-def-files"][0] = json!("Files/kubernetes/wbe.yaml");
    let shown = testbed.server.ctl(&["vnf", "show", "named"]);
    let path = format!(
        "/vnflcm/v2/vnf_instances/{}/instantiate",
        shown["id"].as_str().unwrap()
    );
    let (status, problem) = testbed.server.http("POST", &path, &request.to_string());
    let (detail, code) = (problem["detail"].as_str().unwrap(), &problem["code"]);
    assert_eq!(
        (status, code),
        (422, &json!("kubernetes.parameter-invalid")),
        "{problem:#}"
    );
    assert!(
        detail.contains("no file `Files/kubernetes/wbe.yaml`"),
        "{detail}"
    );
    request["additionalParams"]["lcm-kubernetes-def-files"][0] = named;
    assert_counts(&instance.instantiate(&request), &[("VDU1", 1)]);
    testbed.server.ctl(&[
        "vnf", "scale", "named", "--aspect", "web", "--out", "--watch",
    ]);
    let scaled = testbed.server.ctl(&["vnf", "show", "named"]);
    assert_counts(&scaled["instantiatedVnfInfo"], &[("VDU1", 2)]);
    instance.ends();
    without_cluster(&sim, &testbed);
}

#[test]
fn a_chart_is_refused_by_a_server_without_helm() {
    let (sim, testbed, vim) = with_cluster();
    let instance = SampleInstance::create(&testbed, "cnf-chart", "cnf-chart");
    let request = testbed.request("cnf-chart", &vim);
    let id = testbed.server.ctl(&["vnf", "show", "cnf-chart"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/vnflcm/v2/vnf_instances/{id}/instantiate");
    let (status, problem) = testbed.server.http("POST", &path, &request.to_string());
    assert_eq!(status, 422, "{problem:#}");
    let detail = problem["detail"].as_str().unwrap();
    for part in ["the package has charts", "no helm"] {
        assert!(detail.contains(part), "no `{part}` in {detail}");
    }
    testbed.server.ctl(&["vnf", "delete", "cnf-chart"]);
    instance.forget();
    without_cluster(&sim, &testbed);
}

/// A key and a self-signed certificate, created by `openssl`.
fn key_pair(folder: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
    ]);
    openssl.args([
        "-subj",
        "/CN=vendor",
        "-keyout",
        "vendor.key",
        "-out",
        "vendor.pem",
    ]);
    let created = openssl.current_dir(folder).output().unwrap();
    assert!(
        created.status.success(),
        "openssl: {}",
        String::from_utf8_lossy(&created.stderr)
    );
}

#[test]
fn a_signed_package_is_accepted_when_signatures_are_required() {
    let folder = tempfile::tempdir().unwrap();
    key_pair(folder.path());
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let trust = at("vendor.pem");
    let configuration = format!(
        "limits: {{lease_seconds: 2}}\npackages: {{signatures: require, trust: {trust}}}\n"
    );
    let (sim, testbed) = testbed_in(&[], &configuration);
    let sample = super::copy("vnf-ha-pair", folder.path())
        .to_string_lossy()
        .into_owned();
    let output = testbed.server.run(&["package", "onboard", &sample]);
    assert_ne!(output.code, 0, "{output:?}");
    assert!(
        output.stderr.contains("the package is not signed"),
        "{}",
        output.stderr
    );
    for (option, name) in [("1", "pair.csar"), ("2", "pair.zip")] {
        let (key, out) = (at("vendor.key"), at(name));
        let words = [
            "--key", &key, "--cert", &trust, "--option", option, "--out", &out,
        ];
        let built = at(&format!("built-{option}.csar"));
        testbed
            .server
            .ctl(&["package", "build", &sample, "--out", &built]);
        testbed
            .server
            .ctl(&[&["package", "sign", &built][..], &words].concat());
        let instance = SampleInstance::create(&testbed, "pair", &out);
        let record = testbed.server.ctl(&["package", "show", &instance.package]);
        assert_eq!(
            record["packageSecurityOption"],
            format!("OPTION_{option}"),
            "{record:#}"
        );
        let request = testbed.request("vnf-ha-pair", &instance.vim(VIM));
        assert_counts(
            &instance.instantiate(&request),
            &[("active", 1), ("standby", 1)],
        );
        instance.ends();
    }
    testbed.finish();
    sim.assert_clean();
}
