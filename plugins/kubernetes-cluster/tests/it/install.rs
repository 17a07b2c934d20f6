//! The complete installation, and hosts that differ from the usual.

use crate::lab::{Lab, PASSWORD};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vnfm_core::ports::ErrorKind;
use vnfm_sim::faults::{Fault, Rule};

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_become_a_cluster() {
    let lab = Lab::new().await;
    let effects = lab.install().await.unwrap();
    lab.check(&effects);
    for host in ["m1", "w1", "w2"] {
        assert_eq!(lab.count(host, "kubeadm reset"), 0);
    }
    assert_eq!(
        [
            lab.count("m1", "kubeadm init"),
            lab.count("w1", "kubeadm join")
        ],
        [1, 1]
    );
    let bearer = effects.register_vims[0].access_info["bearer_token"]
        .as_str()
        .unwrap()
        .to_owned();
    let texts = lab.texts();
    for secret in [PASSWORD, &bearer] {
        assert!(!texts.contains(secret), "a secret can be read");
    }
    assert!(texts.contains("progress: {\"percent\":100"), "{texts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_the_installation_changes_nothing() {
    let lab = Lab::new().await;
    lab.install().await.unwrap();
    let effects = lab.install().await.unwrap();
    lab.check(&effects);
    let counts = ["init", "join", "reset"].map(|verb| {
        ["m1", "w1", "w2"]
            .iter()
            .map(|h| lab.count(h, &format!("kubeadm {verb}")))
            .sum::<usize>()
    });
    assert_eq!(counts, [1, 2, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_join_in_parallel() {
    let lab = Lab::new().await;
    lab.faults.add(
        Rule::new("host.exec", Fault::Delay { delay_ms: 1000 })
            .on(": kubeadm join")
            .nth(1, 2),
    );
    lab.install().await.unwrap();
    let calls = lab.books.calls();
    let at = |call: &str, host: &str, words: &str| {
        let fits = |c: &&vnfm_sim::ledger::Call| {
            c.call == call && c.subject.starts_with(host) && c.subject.contains(words)
        };
        calls
            .iter()
            .find(fits)
            .unwrap_or_else(|| panic!("no {call} of {words} on {host}"))
            .n
    };
    let begun = ["w1", "w2"].map(|w| at("ssh.run", w, "start inst-1 join"));
    let ended = ["w1", "w2"].map(|w| at("host.exec", &format!("{w}: kubeadm join"), ""));
    assert!(
        begun.iter().max() < ended.iter().min(),
        "{begun:?} {ended:?}"
    );
    let cni = at("host.exec", "m1: kubectl", "apply -f /run/vnfm/cni.yaml");
    assert!(
        Some(&cni) < ended.iter().min(),
        "the network does not wait for the joins"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_join_is_reported_and_only_it_is_repeated() {
    let lab = Lab::new().await;
    let stderr = "error execution phase kubelet-start: token abcdef.0123456789abcdef timed out\n";
    let fault = Fault::Exit {
        exit: 1,
        stderr: stderr.into(),
    };
    lab.faults
        .add(Rule::new("host.exec", fault).on("w2: kubeadm join"));
    let error = lab.install().await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("join-failed", ErrorKind::Unavailable),
        "{error}"
    );
    let text = format!("{error} {error:?}");
    for word in ["w2", "join", "exit code 1", "kubelet-start", "[hidden]"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    assert!(!text.contains("abcdef.0123456789abcdef"));
    assert!(lab.cluster().node_ready("w1"), "the other join is not lost");

    let effects = lab.install().await.unwrap();
    lab.check(&effects);
    let joins = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm join"));
    let resets = ["m1", "w1", "w2"].map(|host| lab.count(host, "kubeadm reset"));
    assert_eq!(
        (joins, resets),
        ([1, 2], [0, 0, 1]),
        "a half join is reset before it is repeated"
    );
    assert_eq!(lab.count("m1", "kubeadm init"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_pin_the_ca_and_keep_no_token() {
    let lab = Lab::new().await;
    lab.install().await.unwrap();
    for worker in ["server-w1", "server-w2"] {
        let known = lab.hosts.file(worker, "/run/vnfm/discovery.conf").unwrap();
        let known: Value = serde_json::from_slice(&known).unwrap();
        let cluster = &known["clusters"][0]["cluster"];
        assert_eq!(
            cluster["server"],
            format!("https://{}:6443", lab.address(1))
        );
        let ca = STANDARD.encode(lab.cluster().ca_pem());
        assert_eq!(cluster["certificate-authority-data"], ca);
        assert_eq!(
            lab.hosts.file(worker, "/run/vnfm/join.yaml"),
            None,
            "it has the token"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_reboots_later_remains_a_node() {
    let lab = Lab::new().await;
    lab.install().await.unwrap();
    lab.hosts.power_off("server-w1");
    lab.hosts.power_on("server-w1").await.unwrap();
    let effects = lab.install().await.unwrap();
    lab.check(&effects);
    assert_eq!(
        [
            lab.count("w1", "kubeadm join"),
            lab.count("w1", "kubeadm reset")
        ],
        [1, 0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_are_written_for_the_hosts() {
    let lab = Lab::new().await;
    let mut params = lab.params();
    params["k8s_cluster_installation_param"]["proxy"] = json!({
        "http_proxy": "http://user:proxy-secret@proxy:3128", "no_proxy": "example.com", "k8s_node_cidr": "10.1.0.0/16",
    });
    let effects = lab
        .run(lab.request("instantiate_end", &params), None)
        .await
        .unwrap()
        .unwrap();
    lab.check(&effects);
    let unit = "/etc/systemd/system/containerd.service.d/90-vnfm-proxy.conf";
    let unit = String::from_utf8(lab.hosts.file("server-w1", unit).unwrap()).unwrap();
    for word in [
        "HTTP_PROXY=http://user",
        "10.244.0.0/16",
        "10.1.0.0/16",
        "example.com",
        ".svc",
    ] {
        assert!(unit.contains(word), "{word} is missing in {unit}");
    }
    assert!(!lab.texts().contains("proxy-secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_programs_come_from_the_package_or_the_repository() {
    let bare = || {
        Rule::new(
            "host.packages",
            Fault::Exit {
                exit: 1,
                stderr: String::new(),
            },
        )
        .nth(1, 3)
    };
    let names = ["kubeadm", "kubelet", "kubectl", "containerd"];

    let mut lab = Lab::empty().await;
    lab.faults.add(bare());
    lab.boot_all().await;
    let error = lab.install().await.unwrap_err();
    assert_eq!(error.name(), "packages-missing");
    assert!(
        error.to_string().contains("m1") && error.to_string().contains("kubeadm"),
        "{error}"
    );

    for name in names {
        let path = format!("Files/kubernetes/packages/{name}_1.36.2_amd64.deb");
        lab.package.insert(path, b"an archive".to_vec());
    }
    lab.check(&lab.install().await.unwrap());
    assert_eq!(lab.count("w1", "dpkg -i"), 1);

    let lab = Lab::empty().await;
    lab.faults.add(bare());
    // Programs are installed with apt if the image has a repository.
    lab.faults.add(
        Rule::new(
            "host.repository",
            Fault::Exit {
                exit: 0,
                stderr: String::new(),
            },
        )
        .nth(1, 3),
    );
    lab.boot_all().await;
    lab.check(&lab.install().await.unwrap());
    assert_eq!(lab.count("w1", "apt-get install"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminate_end_unregisters_the_instances_vims() {
    let lab = Lab::empty().await;
    let mut request = lab.request("terminate_end", &json!({}));
    request.vims = serde_json::from_value(json!([
        { "id": "1", "name": "vim-of-a", "vimType": "ETSINFV.KUBERNETES.V_1" },
        { "id": "2", "name": "another", "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3" },
    ]))
    .unwrap();
    let effects = lab.run(request, None).await.unwrap().unwrap();
    assert_eq!(effects.unregister_vims, ["vim-of-a"]);
}

/// Every file on the hosts that contains `text`.
fn files_with(lab: &Lab, text: &str) -> Vec<String> {
    let hosts = ["m1", "w1", "w2"].map(|name| format!("server-{name}"));
    let all = hosts.iter().flat_map(|host| {
        lab.hosts
            .files(host)
            .into_iter()
            .map(move |path| (host.clone(), path))
    });
    let holds = |host: &str, path: &str| {
        let content = lab.hosts.file(host, path).unwrap_or_default();
        String::from_utf8_lossy(&content).contains(text)
    };
    all.filter(|(host, path)| holds(host, path))
        .map(|(host, path)| host + ":" + &path)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_initialized_twice_leaves_no_token_behind() {
    let lab = Lab::new().await;
    let fault = Fault::Exit {
        exit: 1,
        stderr: "error execution phase wait-control-plane\n".into(),
    };
    lab.faults
        .add(Rule::new("host.exec", fault).on("m1: kubeadm init"));
    let error = lab.install().await.unwrap_err();
    assert_eq!(error.name(), "init-failed", "{error}");
    assert_eq!(files_with(&lab, "\"token\""), [""; 0], "after a failure");
    let effects = lab.install().await.unwrap();
    lab.check(&effects);
    assert_eq!(files_with(&lab, "\"token\""), [""; 0]);
    let token = effects.register_vims[0].access_info["bearer_token"]
        .as_str()
        .unwrap();
    assert_eq!(files_with(&lab, token), [""; 0]);
}
