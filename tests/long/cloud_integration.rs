//! Services of a real cluster of VNF-A get load balancers of the real cloud by Kuryr, whose controller logs in with the
//! credential that the VNFM created for it: that of VNF-B follows its pods. A termination leaves nothing of that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};
use vnfm_tests::cloud::Cloud;
use vnfm_tests::cluster_access::{ClusterShell, b_namespace};
use vnfm_tests::live::{neighbour, skip};
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::sources::{copy, root};
use vnfm_tests::testbed::{Testbed, VNF_A, VNF_B};

const SAMPLE: &str = "vnf-a-cloud-integration";
/// How long a load balancer may take.
const BALANCED: Duration = Duration::from_mins(2);
/// Kuryr's controller from a Python environment, killed on drop.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn vnf_b_has_a_load_balancer_that_follows_its_pods_and_terminations_leave_none() {
    let Some(real) = Real::find() else { return };
    let Some(kuryr) = neighbour("VNFM_LIVE_KURYR") else {
        return;
    };
    if !real.cloud().has("load-balancer") {
        skip("the cloud has no Octavia; `cargo xtask stack up` starts it");
        return;
    }
    let testbed = real.testbed();
    let folder = tempfile::tempdir().unwrap();
    let (id, request) = testbed.create_a(&package(folder.path(), &kuryr));
    let op = testbed.instantiate(VNF_A, &with_kuryr(&request));
    testbed.wait_for_state(&op, "COMPLETED");
    let vim = testbed.assert_a_up(3);
    let cluster = ClusterShell::connect(&testbed);
    let _controller = start(&kuryr, &cluster, folder.path());

    let tag = format!("vnf-{id}");
    run_b(&testbed, folder.path(), &vim);
    let service = format!("{}/web", b_namespace(&testbed));
    let follows = |pods: usize| {
        until("the members are the pods of VNF-B", BALANCED, || {
            let members = members_of(&real.cloud(), &tag, &service)?;
            let all = pods_of(&cluster, &b_namespace(&testbed));
            (all.len() == pods && members == all).then_some(())
        });
    };
    follows(2);
    assert_served_at_a_floating_ip(&real.cloud(), &cluster, &b_namespace(&testbed));
    for (way, pods) in [("--out", 3), ("--in", 2)] {
        let scale = ["vnf", "scale", VNF_B, "--aspect", "web", way];
        let begun = testbed.server.ctl(&scale);
        let op = begun["vnfLcmOpOccId"].as_str().unwrap();
        testbed.wait_for_state(op, "COMPLETED");
        follows(pods);
    }
    testbed.terminate_and_delete(VNF_B);
    assert_eq!(balancer_of(&real.cloud(), &tag, &service), None);
    assert_eq!(floating_ips(&real.cloud()), Vec::<Value>::new());

    apply_service(&cluster, "kept");
    until(
        "the load balancer of a Service that stays",
        BALANCED,
        || members_of(&real.cloud(), &tag, "default/kept"),
    );
    testbed.terminate_and_delete(VNF_A);
    assert_eq!(balancers(&real.cloud(), &tag), Vec::<Value>::new());
    assert_eq!(floating_ips(&real.cloud()), Vec::<Value>::new());
    testbed.finish();
    real.wait_until_clean();
}

/// Instantiates VNF-B with a Service of type `LoadBalancer`, which is ready when it has an address.
fn run_b(testbed: &Testbed, folder: &Path, vim: &str) {
    let package = copy("vnf-b-cnf", folder);
    let service = package.join("Files/kubernetes/service.yaml");
    let text = fs::read_to_string(&service).unwrap();
    assert!(text.contains("type: ClusterIP"), "{text}");
    fs::write(
        service,
        text.replace("type: ClusterIP", "type: LoadBalancer"),
    )
    .unwrap();
    testbed.instantiate_b_from(package.to_str().unwrap(), vim);
}

/// The sample with Kuryr's definitions. The manifest has no Deployment: the image of the controller cannot
/// run here.
fn package(folder: &Path, kuryr: &Path) -> String {
    let from = root().join("vnfd-samples").join(SAMPLE);
    let copied = Command::new("cp").arg("-r").arg(from).arg(folder).status();
    assert!(copied.unwrap().success());
    let package = folder.join(SAMPLE);
    let addons = package.join("Files/kubernetes/addons");
    let manifest = addons.join("kuryr-controller.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    let (others, deployments): (Vec<_>, Vec<_>) = text
        .split("\n---\n")
        .partition(|document| !document.contains("kind: Deployment"));
    assert_eq!((others.len(), deployments.len()), (4, 1));
    fs::write(&manifest, others.join("\n---\n")).unwrap();
    let mut definitions: Vec<PathBuf> = fs::read_dir(kuryr.join("crds"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    definitions.sort();
    let texts = definitions
        .iter()
        .map(|path| fs::read_to_string(path).unwrap());
    let text = texts.collect::<Vec<_>>().join("\n---\n");
    fs::write(addons.join("kuryr-definitions.yaml"), text).unwrap();
    let manifest = package.join("vnf-a-cloud-integration.mf");
    let listed = fs::read_to_string(&manifest).unwrap();
    let more = "\nSource: Files/kubernetes/addons/kuryr-definitions.yaml\n";
    fs::write(&manifest, format!("{}{more}", listed.trim_end())).unwrap();
    package.to_str().unwrap().to_owned()
}

/// The request with the add-ons of the sample's request for Kuryr, for one control-plane node at its own address: the cloud's load
/// balancers forward nothing.
fn with_kuryr(request: &Value) -> Value {
    let file = format!("vnfd-samples/{SAMPLE}/requests/instantiate-kuryr.json");
    let kuryr = fs::read_to_string(root().join(file)).unwrap();
    let kuryr: Value = serde_json::from_str(&kuryr).unwrap();
    let addons = "/additionalParams/k8s_cluster_installation_param/addons";
    let mut request = request.clone();
    *request.pointer_mut(addons).unwrap() = kuryr.pointer(addons).unwrap().clone();
    let text = request.to_string().replace("@LB_PROVIDER@", "nfvtest");
    let mut request: Value = serde_json::from_str(&text).unwrap();
    request["instantiationLevelId"] = json!("single");
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    let installation = installation.as_object_mut().unwrap();
    installation.remove("control_plane_endpoint");
    let kuryr = installation["addons"][1].as_object_mut().unwrap();
    assert_eq!(kuryr["name"], "kuryr");
    kuryr.remove("values");
    request
}

/// Starts the controller with its file from the cluster, and a second one that says how it reaches the API server from here, as its
/// service account.
fn start(kuryr: &Path, cluster: &ClusterShell, folder: &Path) -> Controller {
    let secret = cluster.kubectl("-n kube-system get secret kuryr-config -o json");
    let secret: Value = serde_json::from_str(&secret.unwrap()).unwrap();
    let decoded = |text: &Value| BASE64.decode(text.as_str().unwrap()).unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let config = write("kuryr.conf", &decoded(&secret["data"]["kuryr.conf"]));
    let shown = cluster.kubectl("config view --raw -o json").unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let at = &shown["clusters"][0]["cluster"];
    let ca = write("ca.crt", &decoded(&at["certificate-authority-data"]));
    let account = "-n kube-system create token kuryr-controller --duration=1h";
    let token = write("token", cluster.kubectl(account).unwrap().trim().as_bytes());
    let server = at["server"].as_str().unwrap();
    let ports = [free_port(), free_port()];
    let local = format!(
        "[kubernetes]\napi_root = {server}\ntoken_file = {token}\nssl_ca_crt_file = {ca}\nssl_verify_server_crt = true\n\
         [health_server]\nport = {}\n\
         [prometheus_exporter]\ncontroller_exporter_port = {}\n",
        ports[0], ports[1]
    );
    let local = write("local.conf", local.as_bytes());
    let log = fs::File::create(folder.join("controller.log")).unwrap();
    // Certificates of the environment would take precedence over those of the configuration.
    let child = Command::new(kuryr.join("bin/kuryr-k8s-controller"))
        .args(["--config-file", &config, "--config-file", &local])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Controller(child)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A Service whose endpoint is named by hand: no image of a pod is needed.
fn apply_service(cluster: &ClusterShell, name: &str) {
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]);
    let metadata = json!({"name": name, "namespace": "default"});
    let spec = json!({"type": "LoadBalancer", "ports": ports});
    cluster
        .apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}));
    let subsets = json!([{"addresses": [{"ip": "10.244.9.9"}], "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]);
    cluster.apply(
        &json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}),
    );
}

fn balancers(cloud: &Cloud, tag: &str) -> Vec<Value> {
    let path = format!("/v2.0/lbaas/loadbalancers?tags={tag}");
    cloud.list("load-balancer", &path, "loadbalancers")
}

/// That of a Service, as `NAMESPACE/NAME`; Kuryr creates one for the cluster's DNS, too.
fn balancer_of(cloud: &Cloud, tag: &str, service: &str) -> Option<Value> {
    let mut all = balancers(cloud, tag).into_iter();
    all.find(|balancer| balancer["name"] == service)
}

/// Addresses and ports of the members; `None` until there is one.
fn members_of(cloud: &Cloud, tag: &str, service: &str) -> Option<BTreeSet<String>> {
    let balancer = balancer_of(cloud, tag, service)?;
    let pool = balancer["pools"][0]["id"].as_str()?;
    let path = format!("/v2.0/lbaas/pools/{pool}/members");
    let members = cloud.list("load-balancer", &path, "members");
    let found = members.iter().map(|member| {
        let address = member["address"].as_str().unwrap();
        format!("{address}:{}", member["protocol_port"])
    });
    let found: BTreeSet<_> = found.collect();
    assert_eq!(found.len(), members.len(), "none twice: {members:#?}");
    (!found.is_empty()).then_some(found)
}

/// Addresses of the pods of VNF-B that are not terminating, with their port.
fn pods_of(cluster: &ClusterShell, namespace: &str) -> BTreeSet<String> {
    let pods = cluster.kubectl(&format!("-n {namespace} get pods -o json"));
    let pods: Value = serde_json::from_str(&pods.unwrap()).unwrap();
    let pods = pods["items"].as_array().unwrap().iter();
    let pods = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let addresses = pods.filter_map(|pod| pod["status"]["podIP"].as_str());
    addresses.map(|address| format!("{address}:8080")).collect()
}

/// The Service of VNF-B shows a floating IP that the cloud has.
fn assert_served_at_a_floating_ip(cloud: &Cloud, cluster: &ClusterShell, namespace: &str) {
    let service = cluster.kubectl(&format!("-n {namespace} get service web -o json"));
    let service: Value = serde_json::from_str(&service.unwrap()).unwrap();
    let shown = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
    let all = floating_ips(cloud);
    let found = all.iter().any(|one| one["floating_ip_address"] == *shown);
    assert!(shown.is_string() && found, "{shown} is none of {all:#?}");
}

fn floating_ips(cloud: &Cloud) -> Vec<Value> {
    cloud.list("network", "/v2.0/floatingips", "floatingips")
}
