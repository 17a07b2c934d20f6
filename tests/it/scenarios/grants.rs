//! An NFVO that grants, rejects, delays, fails or does not respond, as operators see it. All bodies are
//! validated by the official schemas.

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::cloud::Cloud;
use vnfm_tests::planted::Planted;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sol_schema::SolSchema;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

use super::package_without_hooks;

/// The password of this server at the NFVO.
const PASSWORD: &str = "planted-nfvo-password-2c77";

/// A VNF-A without hooks, created, at a server that uses the simulated NFVO.
struct Scene {
    sim: Simulator,
    testbed: Testbed,
    id: String,
    request: Value,
    _package: TempDir,
}

/// `more` goes into `nfvo` of the server's configuration, with `@NFVO@` and `@TLS@` for its addresses.
fn scene(more: &str, sample: &str) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulator::start(folder.path(), &[]);
    let password = folder.path().join("nfvo-password");
    std::fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    let world = folder.path().join("world");
    let more = more
        .replace("@NFVO@", sim.endpoint("nfvo"))
        .replace("@TLS@", sim.endpoint("nfvoTls"))
        .replace("@PASSWORD@", &password.to_string_lossy())
        .replace("@WORLD@", &world.to_string_lossy());
    let configuration = format!(
        "limits: {{lease_seconds: 2}}\nnotifications: {{networks: [127.0.0.0/8]}}\nnfvo:\n{more}\n"
    );
    std::fs::write(folder.path().join("server.yaml"), configuration).unwrap();
    let testbed = Testbed::new(folder, &sim.clouds(), sim.ssh_port(), "debug");
    let package = tempfile::tempdir().unwrap();
    let (id, request) = testbed.create_a(&package_without_hooks(sample, package.path()));
    Scene {
        sim,
        testbed,
        id,
        request,
        _package: package,
    }
}

fn plain() -> Scene {
    scene(
        "  endpoint: @NFVO@\n  answer_seconds: 2",
        "vnf-a-k8s-cluster",
    )
}

impl Scene {
    fn begin_op(&self) -> String {
        self.testbed.instantiate(VNF_A, &self.request)
    }

    fn op(&self, id: &str) -> Value {
        self.testbed
            .server
            .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{id}"))
    }

    /// The operation is ROLLED_BACK with this error, and nothing was created.
    fn assert_refused(&self, code: &str, expected: &[&str]) {
        let op = self.begin_op();
        let error = self.testbed.wait_for_state(&op, "ROLLED_BACK")["error"].clone();
        assert_eq!(error["code"], code, "{error:#}");
        self.testbed.assert_explains(&op, &error, expected);
        assert_eq!(
            self.sim.calls("heat.stack_create", "").len(),
            0,
            "nothing was made"
        );
    }

    /// The availability zones of its servers.
    fn zones(&self) -> Vec<String> {
        let servers =
            Cloud::login(&self.sim.clouds()).list("compute", "/servers/detail", "servers");
        let zone = |server: &Value| {
            server["OS-EXT-AZ:availability_zone"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        servers.iter().map(zone).collect()
    }

    /// Every request and response is valid, and this many grants were given.
    fn assert_bodies_valid(&self, grants: usize) {
        let page = self.sim.nfvo();
        let cases = page["grants"].as_array().unwrap();
        let given = cases.iter().filter(|case| case["status"] == 201).count();
        assert_eq!(given, grants, "{page:#}");
        let kinds = ["GrantRequest", "Grant", "ProblemDetails"].map(SolSchema::for_type);
        let [Some(request), Some(grant), Some(problem)] = &kinds else {
            return;
        };
        for case in cases {
            request.check(&case["request"]);
            let answer = if case["status"] == 201 {
                grant
            } else {
                problem
            };
            answer.check(&case["answer"]);
        }
        for (kind, standard) in [
            "VnfLcmOperationOccurrenceNotification",
            "VnfIdentifierDeletionNotification",
        ]
        .map(|kind| (kind, SolSchema::for_type(kind)))
        {
            let notifications = page["notifications"].as_array().unwrap().iter();
            let of_kind = notifications.filter(|one| one["notificationType"] == kind);
            of_kind.for_each(|one| standard.as_ref().unwrap().check(one));
        }
    }

    fn ends(&self) {
        self.testbed.terminate_and_delete(VNF_A);
        self.testbed.finish();
        self.sim.assert_clean();
    }
}

fn assert_operation_and_grant_link_to_each_other(scene: &Scene, op: &str) {
    let visible = scene.op(op);
    let page = scene.sim.nfvo();
    let grant = &page["grants"][0];
    assert_eq!(visible["grantId"], grant["id"]);
    let nfvo = scene.sim.endpoint("nfvo");
    let link = format!("{nfvo}/grant/v1/grants/{}", grant["id"].as_str().unwrap());
    assert_eq!(visible["_links"]["grant"]["href"], link);
    let links = &grant["request"]["_links"];
    assert_eq!(
        links["vnfLcmOpOcc"], visible["_links"]["self"],
        "links lead here"
    );
    assert_eq!(links["vnfInstance"], visible["_links"]["vnfInstance"]);
}

/// Waits until the NFVO has received the notification of the deleted instance, which is the last one.
fn wait_for_deletion_notification(scene: &Scene) {
    until("the last notification", LONG, || {
        let notifications = scene.sim.nfvo()["notifications"]
            .as_array()
            .unwrap()
            .clone();
        notifications
            .iter()
            .any(|one| one["notificationType"] == "VnfIdentifierDeletionNotification")
            .then_some(())
    });
}

#[test]
fn granted_lifecycle_with_oauth2_zone_and_notifications() {
    let oauth2 = "  endpoint: @NFVO@\n  oauth2: {token_endpoint: '@NFVO@/token', client_id: vnfm, \
                  client_password_file: '@PASSWORD@'}";
    let scene = scene(oauth2, "vnf-a-k8s-cluster");
    let policy = json!({"login": "oauth2", "zone": "edge", "polls": 2});
    scene.sim.set_nfvo(&policy);
    let nfvo = scene.sim.endpoint("nfvo");
    let subscription = json!({"callbackUri": format!("{nfvo}/notifications"), "authentication": {
        "authType": ["OAUTH2_CLIENT_CREDENTIALS"], "paramsOauth2ClientCredentials": {
            "clientId": "vnfm", "clientPassword": PASSWORD, "tokenEndpoint": format!("{nfvo}/token")}}});
    let (status, made) = scene.testbed.server.http(
        "POST",
        "/vnflcm/v2/subscriptions",
        &subscription.to_string(),
    );
    assert_eq!(status, 201, "{made:#}");
    let op = scene.begin_op();
    scene.testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(scene.zones(), ["edge"; 3]);
    assert_operation_and_grant_link_to_each_other(&scene, &op);
    // One token for the grants and one for the callbacks; once they are revoked, new ones.
    assert_eq!(scene.sim.nfvo()["tokensGiven"], 2, "tokens are cached");
    scene.sim.act("revoke-nfvo-tokens", &json!({}));
    let vnfc = scene.testbed.server.ctl(&["vnf", "show", VNF_A]);
    let vnfc = vnfc["instantiatedVnfInfo"]["vnfcResourceInfo"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let healed = scene.testbed.heal(&[&vnfc], &[]);
    scene.testbed.wait_for_state(&healed, "COMPLETED");
    assert_eq!(scene.zones(), ["edge"; 3]);
    let request = &scene.sim.nfvo()["grants"][1]["request"];
    assert_eq!(
        request["removeResources"][0]["id"],
        format!("compute/{vnfc}")
    );
    assert_eq!(
        request["removeResources"].as_array().unwrap().len(),
        1,
        "{request:#}"
    );
    scene.testbed.terminate_and_delete(VNF_A);
    wait_for_deletion_notification(&scene);
    assert_eq!(scene.sim.nfvo()["tokensGiven"], 4);
    scene.assert_bodies_valid(3);
    let mut planted = Planted::default();
    planted.add("password", PASSWORD);
    for text in [
        scene.testbed.server.logged(),
        json!(scene.op(&op)).to_string(),
    ] {
        assert_eq!(planted.within(text.as_bytes()), [""; 0]);
        assert!(!text.contains("planted-token-"), "a token is in the log");
    }
    scene.testbed.finish();
    scene.sim.assert_clean();
}

#[test]
fn rejected_unusable_and_malformed_grants_are_reported_by_cause() {
    let scene = plain();
    scene
        .sim
        .set_nfvo(&json!({"deny": "no room at all", "polls": 1}));
    scene.assert_refused(
        "nfvo.grant-rejected",
        &["no room at all", "ask the operator of the NFVO"],
    );
    scene.sim.set_nfvo(&json!({"zone": "moon"}));
    scene.assert_refused(
        "openstack.grant",
        &["zone `moon`", "the cloud has nova, edge"],
    );
    scene.sim.set_nfvo(&json!({"grant": {"id": null}}));
    scene.assert_refused("nfvo.malformed", &["not a valid Grant: `id`"]);
    scene
        .sim
        .set_nfvo(&json!({"grant": {"addResources": null}}));
    scene.assert_refused("grant.amiss", &["does not approve `compute/masterNode/0`"]);
    scene.sim.set_nfvo(&json!({"login": "basic"}));
    scene.assert_refused("nfvo.refuses", &["401", "log in first"]);
    scene.sim.set_nfvo(&json!({}));
    scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
    scene.ends();
}

#[test]
fn a_zone_that_the_template_does_not_accept_is_refused_or_logged() {
    const NFVO: &str = "  endpoint: @NFVO@\n  answer_seconds: 2";
    let sample = "vnf-a-k8s-cluster-base-hot";
    let scene_refusing = scene(NFVO, sample);
    scene_refusing.sim.set_nfvo(&json!({"zone": "edge"}));
    scene_refusing.assert_refused(
        "openstack.grant",
        &[
            "zone `edge` for VDU `masterNode`",
            "`grants.unplaced: warn`",
        ],
    );
    let scene = scene(&format!("{NFVO}\ngrants: {{unplaced: warn}}"), sample);
    scene.sim.set_nfvo(&json!({"zone": "edge"}));
    let op = scene.begin_op();
    scene.testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(scene.zones(), ["nova"; 3]);
    let log = scene.testbed.server.ctl(&["op", "log", &op]);
    let lines = log.as_array().unwrap().iter();
    let of_master = lines.filter(|line| {
        let text = line["text"].as_str().unwrap();
        line["level"] == "warn" && text.contains("zone `edge` for VDU `masterNode`")
    });
    assert_eq!(of_master.count(), 1, "{log:#}");
    scene.ends();
}

#[test]
fn transient_nfvo_failures_are_retried() {
    let scene = plain();
    let faults = [
        json!({"call": "nfvo.grant", "times": 2, "fault": {"status": 503}}),
        json!({"call": "nfvo.grant", "nth": 3, "fault": {"hang": true}}),
        json!({"call": "nfvo.grant", "nth": 4, "fault": {"drop": "after"}}),
        json!({"call": "nfvo.grant_look", "fault": {"status": 500}}),
    ];
    scene.sim.set_nfvo(&json!({"polls": 2}));
    for fault in &faults {
        scene.sim.arm(fault);
    }
    scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
    assert_eq!(
        scene.sim.calls("nfvo.grant", &scene.id).len(),
        5 + 3,
        "5 requests, 3 looks"
    );
    let requests = scene.sim.nfvo()["grants"].as_array().unwrap().clone();
    assert_eq!(requests.len(), 2, "one response was lost");
    assert_eq!(
        requests[0]["request"], requests[1]["request"],
        "the same request is sent again"
    );
    scene.sim.disarm();
    scene.ends();
}

#[test]
fn a_crash_while_waiting_for_a_grant_is_resumed() {
    let mut scene = plain();
    scene.sim.set_nfvo(&json!({"polls": 1_000_000}));
    let op = scene.begin_op();
    let looks = |scene: &Scene| scene.sim.calls("nfvo.grant_look", "").len();
    until("a look", LONG, || (looks(&scene) > 0).then_some(()));
    let explained = scene.testbed.server.run(&["op", "explain", &op]).stdout;
    assert!(explained.contains("the NFVO's decision"), "{explained}");
    scene.testbed.server.kill();
    let before = looks(&scene);
    scene.testbed.server.begin();
    until("a look of the next one", LONG, || {
        (looks(&scene) > before).then_some(())
    });
    assert_eq!(
        scene.sim.nfvo()["grants"].as_array().unwrap().len(),
        1,
        "it was asked for once"
    );
    // A graceful cancel would wait for the NFVO as well (SOL003 5.5.4).
    let cancelled = scene
        .testbed
        .server
        .run(&["op", "cancel", &op, "--forceful"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    scene.testbed.wait_for_state(&op, "ROLLED_BACK");
    scene.sim.set_nfvo(&json!({}));
    scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
    scene.ends();
}

#[test]
fn grants_over_mutual_tls_set_flavor_and_image_of_a_base_hot() {
    let tls = "  endpoint: @TLS@\n  authorities_file: '@WORLD@/nfvo-authority.pem'\n  \
               certificate: {cert: '@WORLD@/nfvo-client.pem', key: '@WORLD@/nfvo-client.pem'}\n  \
               basic: {user: vnfm, password_file: '@PASSWORD@'}";
    let scene = scene(tls, "vnf-a-k8s-cluster-base-hot");
    let assets = json!({"computeResourceFlavours": [
        {"vnfdVirtualComputeDescId": "workerNode", "vimFlavourId": "m1.small"}]});
    scene
        .sim
        .set_nfvo(&json!({"login": "basic", "grant": {"vimAssets": assets}}));
    scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
    let servers = Cloud::login(&scene.sim.clouds()).list("compute", "/servers/detail", "servers");
    let flavors = Cloud::login(&scene.sim.clouds()).list("compute", "/flavors", "flavors");
    let small = flavors
        .iter()
        .find(|flavor| flavor["name"] == "m1.small")
        .unwrap();
    let workers = servers
        .iter()
        .filter(|one| one["name"].as_str().unwrap().contains("worker"));
    let of_small = workers
        .filter(|one| one["flavor"]["id"] == small["id"])
        .count();
    assert_eq!(of_small, 2, "{servers:#?}");
    scene.sim.set_nfvo(&json!({"login": "basic"}));
    scene.ends();
    scene.assert_bodies_valid(2);
}
