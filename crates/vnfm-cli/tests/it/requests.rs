//! The requests that commands send: heal, modify, subscriptions, overrides, host keys and the audit log.

use crate::golden::{INSTANCES, instance};
use crate::stub::{OP, Stub, VNF, accepted, at, events, ok, progress};
use serde_json::{Value, json};

#[tokio::test]
async fn a_heal_request_has_the_vnfcs_cause_and_parameters() {
    let task = format!("POST /vnflcm/v2/vnf_instances/{VNF}/heal");
    let stub = Stub::new([(INSTANCES, ok(&json!([instance()]))), (&task, accepted())]).await;
    let args = [
        "vnf", "heal", "vnf-a", "--vnfc", "1", "--vnfc", "2", "--cause", "smoke", "--all",
    ];
    let ended = stub.run(&[&args[..], &["--param", "a.b=1"]].concat()).await;
    let expected = format!("heal of vnf-a accepted as operation {OP}\n");
    assert_eq!(
        (ended.code, ended.data),
        (0, expected),
        "{}",
        ended.messages
    );
    let sent = stub
        .requests()
        .into_iter()
        .find(|request| request.target == task)
        .unwrap();
    let expected = json!({"vnfcInstanceId": ["1", "2"], "cause": "smoke",
        "additionalParams": {"all": true, "a": {"b": 1}}});
    assert_eq!(sent.body, expected);
    assert!(!sent.headers.contains_key("x-vnfm-skip-hooks"));
    assert_eq!(stub.run(&["vnf", "heal", "vnf-a"]).await.code, 0);
    assert_eq!(stub.requests().last().unwrap().body, json!({}));
}

#[tokio::test]
async fn a_state_is_stored_in_a_new_snapshot_and_returned_to() {
    const SNAPSHOTS: &str = "POST /vnflcm/v2/vnf_snapshots";
    let [create, revert] = ["create_snapshot", "revert_to_snapshot"]
        .map(|task| format!("POST /vnflcm/v2/vnf_instances/{VNF}/{task}"));
    let stub = Stub::new([
        (INSTANCES, ok(&json!([instance()]))),
        (SNAPSHOTS, ok(&json!({"id": "new"}))),
        (&create, accepted()),
        (&revert, accepted()),
    ])
    .await;
    let sent = |task: &str| {
        let all = stub.requests().into_iter();
        let of_task: Vec<_> = all.filter(|request| request.target == task).collect();
        of_task.last().map(|request| request.body.clone())
    };
    let begin = [
        "vnf",
        "create_snapshot",
        "vnf-a",
        "--data",
        "before=upgrade",
    ];
    let planned = stub.run(&[&begin[..], &["--plan"]].concat()).await;
    assert_eq!(planned.code, 1, "{}", planned.messages);
    assert!(
        planned.messages.contains("--snapshot"),
        "{}",
        planned.messages
    );
    assert_eq!(sent(SNAPSHOTS), None, "a plan creates nothing");
    let ended = stub.run(&begin).await;
    assert_eq!(ended.code, 0, "{}", ended.messages);
    assert!(
        ended.messages.contains("created snapshot new"),
        "{}",
        ended.messages
    );
    let data = json!({"before": "upgrade"});
    let expected = json!({"vnfSnapshotInfoId": "new", "userDefinedData": data});
    assert_eq!(sent(&create), Some(expected));
    let named = ["vnf", "create-snapshot", "vnf-a", "--snapshot", "empty"];
    assert_eq!(stub.run(&named).await.code, 0);
    assert_eq!(sent(&create), Some(json!({"vnfSnapshotInfoId": "empty"})));

    let back = ["vnf", "revert_to_snapshot", "vnf-a"];
    assert_eq!(stub.run(&back).await.code, 2, "it names no snapshot");
    let args = ["--snapshot", "new", "--param", "quiet=true"];
    let ended = stub.run(&[&back[..], &args].concat()).await;
    let expected = format!("revert_to_snapshot of vnf-a accepted as operation {OP}\n");
    assert_eq!((ended.code, ended.data), (0, expected));
    let expected = json!({"vnfSnapshotInfoId": "new", "additionalParams": {"quiet": true}});
    assert_eq!(sent(&revert), Some(expected));
}

#[tokio::test]
async fn a_link_is_created_for_each_kind_of_vim_listed_and_deleted() {
    const LINKS: &str = "POST /vnfm/v1/links";
    let link = json!({"id": "l1", "name": "lan", "vimId": "v1", "state": "AVAILABLE", "resourceId": "net-1",
        "usedBy": ["i1"], "createdAt": "2026-11-28T12:00:00Z", "subnets": [{"cidr": "10.0.0.0/24"}]});
    let stub = Stub::new([
        (LINKS, ok(&link)),
        ("GET /vnfm/v1/links", ok(&json!([link]))),
        ("GET /vnfm/v1/links/lan", ok(&link)),
        ("DELETE /vnfm/v1/links/lan", ok(&Value::Null)),
    ])
    .await;
    let sent = || stub.requests().last().unwrap().body.clone();
    let create = ["link", "create", "lan", "--vim", "cloud"];
    let subnets = [
        "--subnet",
        "10.0.0.0/24",
        "--subnet",
        "10.1.0.0/24,10.1.0.9",
        "--no-dhcp",
    ];
    let created = stub.run(&[&create[..], &subnets].concat()).await;
    let expected = "link l1 is available; VNFs use it as resourceId net-1\n";
    assert_eq!((created.code, &*created.data), (0, expected));
    let subnets = json!([{"cidr": "10.0.0.0/24", "dhcpEnabled": false},
        {"cidr": "10.1.0.0/24", "gatewayIp": "10.1.0.9", "dhcpEnabled": false}]);
    let body = json!({"name": "lan", "vimId": "cloud", "subnets": subnets});
    assert_eq!(sent(), body);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bridge.yaml");
    std::fs::write(&file, "type: bridge\nbridge: br0\n").unwrap();
    let file = file.to_str().unwrap();
    let config = ["--namespace", "networks", "--cni-config", file];
    let created = stub.run(&[&create[..], &config].concat()).await;
    assert_eq!(created.code, 0, "{}", created.messages);
    let config = json!({"type": "bridge", "bridge": "br0"});
    let body =
        json!({"name": "lan", "vimId": "cloud", "namespace": "networks", "cniConfig": config});
    assert_eq!(sent(), body);
    let listed = stub.run(&["link", "list"]).await.data;
    assert!(
        listed.contains("USED BY") && listed.contains("net-1"),
        "{listed}"
    );
    let shown = stub.run(&["link", "show", "lan"]).await.data;
    assert!(
        shown.contains("10.0.0.0/24") && shown.contains("i1"),
        "{shown}"
    );
    let deleted = stub.run(&["link", "delete", "lan"]).await;
    assert_eq!(deleted.code, 0, "{}", deleted.messages);
}

#[tokio::test]
async fn volumes_are_retained_and_used() {
    let task = |name: &str| format!("POST /vnflcm/v2/vnf_instances/{VNF}/{name}");
    let (terminate, instantiate) = (task("terminate"), task("instantiate"));
    let stub = Stub::new([
        (INSTANCES, ok(&json!([instance()]))),
        (&terminate, accepted()),
        (&instantiate, accepted()),
    ])
    .await;
    let sent = || stub.requests().last().unwrap().body.clone();
    let retain = ["vnf", "terminate", "vnf-a", "--retain", "data", "--retain"];
    for (last, expected) in [("logs", json!(["data", "logs"])), ("all", json!("all"))] {
        let ended = stub.run(&[&retain[..], &[last]].concat()).await;
        assert_eq!(ended.code, 0, "{}", ended.messages);
        let params = json!({"vnfm_retain_volumes": expected});
        assert_eq!(sent()["additionalParams"], params);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("request.json");
    std::fs::write(
        &file,
        r#"{"flavourId": "simple", "additionalParams": {"size": 1}}"#,
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let using = [
        "vnf",
        "instantiate",
        "vnf-a",
        "--request",
        file,
        "--volume",
        "r1",
    ];
    let ended = stub.run(&using).await;
    assert_eq!(ended.code, 0, "{}", ended.messages);
    let params = json!({"size": 1, "vnfm_reuse_volumes": ["r1"]});
    assert_eq!(sent()["additionalParams"], params);
}

#[tokio::test]
async fn volumes_are_created_listed_and_deleted() {
    let volume = json!({"id": "r1", "virtualStorageDescId": "data", "sizeGib": 5, "vimId": "v1", "state": "AVAILABLE",
        "resourceId": "volume-1", "usedBy": "i1", "vnfInstanceId": "i0", "vnfdId": "d1", "createdAt": "2026-11-28T12:00:00Z"});
    let stub = Stub::new([
        ("POST /vnfm/v1/volumes", ok(&volume)),
        ("GET /vnfm/v1/volumes", ok(&json!([volume]))),
        ("GET /vnfm/v1/volumes/r1", ok(&volume)),
        ("DELETE /vnfm/v1/volumes/r1", ok(&Value::Null)),
    ])
    .await;
    let sent = || stub.requests().last().unwrap().body.clone();
    let create = [
        "volume",
        "create",
        "--vim",
        "cloud",
        "--storage",
        "data",
        "--size",
        "5",
    ];
    let created = stub.run(&create).await;
    let expected = "volume r1 is available; a VNF uses it by `--volume r1`\n";
    assert_eq!((created.code, &*created.data), (0, expected));
    let mut body = json!({"vimId": "cloud", "virtualStorageDescId": "data", "sizeGib": 5});
    assert_eq!(sent(), body);
    let created = stub.run(&[&create[..], &["--type", "fast"]].concat()).await;
    assert_eq!(created.code, 0, "{}", created.messages);
    body["volumeType"] = json!("fast");
    assert_eq!(sent(), body);
    let listed = stub.run(&["volume", "list"]).await.data;
    assert!(
        listed.contains("USED BY") && listed.contains("volume-1"),
        "{listed}"
    );
    let shown = stub.run(&["volume", "show", "r1"]).await.data;
    assert!(
        shown.contains("i0") && shown.contains("2026-11-28"),
        "{shown}"
    );
    let deleted = stub.run(&["volume", "delete", "r1"]).await;
    assert_eq!(deleted.code, 0, "{}", deleted.messages);
}

#[tokio::test]
async fn a_policy_is_set_with_all_its_members_and_shown() {
    let path = format!("/vnfm/v1/vnf_instances/{VNF}/policy");
    let own = json!({"retries": 5, "retryWithinSeconds": 60, "then": "ROLLBACK"});
    let shown = json!({"onFailure": own, "source": "INSTANCE"});
    let [get, put, delete] = ["GET", "PUT", "DELETE"].map(|method| format!("{method} {path}"));
    let stub = Stub::new([
        (INSTANCES, ok(&json!([instance()]))),
        (&get, ok(&shown)),
        (&put, ok(&shown)),
        (&delete, ok(&Value::Null)),
    ])
    .await;
    let policy = ["vnf", "policy"];
    let set = [
        "set",
        "vnf-a",
        "--retries",
        "5",
        "--within",
        "60",
        "--then",
        "rollback",
    ];
    let set = stub.run(&[&policy[..], &set].concat()).await;
    let expected = "steps of vnf-a are retried 5 times within 60 s, then ROLLBACK\n";
    assert_eq!((set.code, set.data.as_str()), (0, expected));
    let sent = stub.requests().last().unwrap().body.clone();
    assert_eq!(sent, json!({"onFailure": own}));
    let shown = stub.run(&["vnf", "policy", "show", "vnf-a"]).await;
    for part in ["5", "60", "ROLLBACK", "INSTANCE"] {
        assert!(shown.data.contains(part), "{}", shown.data);
    }
    let unset = stub.run(&["vnf", "policy", "unset", "vnf-a"]).await;
    assert_eq!(unset.code, 0, "{}", unset.messages);
    assert!(
        stub.requests()
            .iter()
            .any(|request| request.target == delete)
    );
    let wrong = ["vnf", "policy", "set", "vnf-a", "--then", "hope"];
    assert_eq!(stub.run(&wrong).await.code, 2);
}

#[tokio::test]
async fn a_cascade_is_requested_by_a_header() {
    let task = format!("POST /vnflcm/v2/vnf_instances/{VNF}/terminate");
    let stub = Stub::new([(INSTANCES, ok(&json!([instance()]))), (&task, accepted())]).await;
    for (args, expected) in [
        (&["vnf", "terminate", "vnf-a"][..], None),
        (&["vnf", "terminate", "vnf-a", "--cascade"], Some("true")),
    ] {
        assert_eq!(stub.run(args).await.code, 0);
        let headers = stub.requests().last().unwrap().headers.clone();
        let sent = headers
            .get("x-vnfm-cascade")
            .map(|value| value.to_str().unwrap());
        assert_eq!(sent, expected, "{args:?}");
    }
}

/// The instance with a scaling aspect `clients` at level 1 of 3.
fn scalable() -> Value {
    let mut scalable = instance();
    let info = &mut scalable["instantiatedVnfInfo"];
    info["scaleStatus"] = json!([{"aspectId": "clients", "scaleLevel": 1}]);
    info["maxScaleLevels"] = json!([{"aspectId": "clients", "scaleLevel": 3}]);
    scalable
}

#[tokio::test]
async fn a_scaling_sends_steps_or_levels_and_tells_the_size() {
    let task = |name: &str| format!("POST /vnflcm/v2/vnf_instances/{VNF}/{name}");
    let (scale, to_level) = (task("scale"), task("scale_to_level"));
    let stub = Stub::new([
        (INSTANCES, ok(&json!([scalable()]))),
        (&scale, accepted()),
        (&to_level, accepted()),
    ])
    .await;
    for (args, expected) in [
        (
            "scale vnf-a --aspect clients --out",
            json!({"type": "SCALE_OUT", "aspectId": "clients", "numberOfSteps": 1}),
        ),
        (
            "scale vnf-a --aspect clients --in --steps 2 --param a.b=1",
            json!({"type": "SCALE_IN", "aspectId": "clients", "numberOfSteps": 2,
                "additionalParams": {"a": {"b": 1}}}),
        ),
        (
            "scale_to_level vnf-a --level city",
            json!({"instantiationLevelId": "city"}),
        ),
        (
            "scale-to-level vnf-a --aspect clients=2 --aspect load=0",
            json!({"scaleInfo": [{"aspectId": "clients", "scaleLevel": 2}, {"aspectId": "load", "scaleLevel": 0}]}),
        ),
    ] {
        let args: Vec<_> = ["vnf"].into_iter().chain(args.split(' ')).collect();
        let ended = stub.run(&args).await;
        assert_eq!(
            (ended.code, ended.messages.as_str()),
            (0, "size before: clients 1 of 3; 1 master\n")
        );
        assert!(ended.data.contains("of vnf-a accepted"), "{ended:?}");
        assert_eq!(stub.requests().last().unwrap().body, expected);
    }
    for wrong in [
        "scale vnf-a --aspect clients",
        "scale vnf-a --aspect clients --in --out",
        "scale vnf-a --out",
        "scale_to_level vnf-a",
        "scale_to_level vnf-a --level city --aspect clients=2",
    ] {
        let args: Vec<_> = ["vnf"].into_iter().chain(wrong.split(' ')).collect();
        assert_eq!(stub.run(&args).await.code, 2, "{wrong}");
    }
    let wrong = ["vnf", "scale_to_level", "vnf-a", "--aspect", "clients"];
    let ended = stub.run(&wrong).await;
    assert_eq!(ended.code, 1);
    assert!(ended.messages.contains("ASPECT=LEVEL"), "{ended:?}");
}

#[tokio::test]
async fn a_request_in_a_file_is_sent_with_what_the_options_say_instead() {
    let tasks = ["heal", "scale", "scale_to_level", "operate", "terminate"];
    let paths = tasks.map(|task| format!("POST /vnflcm/v2/vnf_instances/{VNF}/{task}"));
    let [heal, scale, to_level, operate, terminate] = &paths;
    let stub = Stub::new([
        (INSTANCES, ok(&json!([scalable()]))),
        (heal, accepted()),
        (scale, accepted()),
        (to_level, accepted()),
        (operate, accepted()),
        (terminate, accepted()),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("request.yaml");
    for (args, request, expected) in [
        (
            "heal vnf-a --cause fire",
            json!({"cause": "smoke", "additionalParams": {"a": 1}}),
            json!({"cause": "fire", "additionalParams": {"a": 1}}),
        ),
        (
            "scale vnf-a --in",
            json!({"type": "SCALE_OUT", "aspectId": "load"}),
            json!({"type": "SCALE_IN", "aspectId": "load"}),
        ),
        (
            "scale_to_level vnf-a",
            json!({"instantiationLevelId": "city"}),
            json!({"instantiationLevelId": "city"}),
        ),
        (
            "operate vnf-a --param a=2",
            json!({"changeStateTo": "STARTED", "additionalParams": {"a": 1, "b": 1}}),
            json!({"changeStateTo": "STARTED", "additionalParams": {"a": 2, "b": 1}}),
        ),
        (
            "terminate vnf-a",
            json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 5}),
            json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 5}),
        ),
    ] {
        std::fs::write(&file, request.to_string()).unwrap();
        let words = ["--request", file.to_str().unwrap()];
        let args = args.split(' ').chain(words);
        let args: Vec<_> = ["vnf"].into_iter().chain(args).collect();
        let ended = stub.run(&args).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(stub.requests().last().unwrap().body, expected, "{args:?}");
    }
}

#[tokio::test]
async fn a_watched_scaling_shows_the_size_after_it() {
    let task = format!("POST /vnflcm/v2/vnf_instances/{VNF}/scale");
    let mut larger = scalable();
    larger["instantiatedVnfInfo"]["scaleStatus"][0]["scaleLevel"] = json!(2);
    let end = progress("COMPLETED", &Value::Null);
    let stub = Stub::new([
        (INSTANCES, ok(&json!([scalable()]))),
        (&*task, accepted()),
        (
            &format!("GET /vnfm/v1/op_occs/{OP}/events"),
            events(std::slice::from_ref(&end)),
        ),
        (&format!("GET /vnfm/v1/op_occs/{OP}/progress"), ok(&end)),
        (
            &format!("GET /vnflcm/v2/vnf_lcm_op_occs/{OP}"),
            ok(&json!({"id": OP})),
        ),
        (&format!("GET /vnflcm/v2/vnf_instances/{VNF}"), ok(&larger)),
    ])
    .await;
    let args = [
        "vnf", "scale", "vnf-a", "--aspect", "clients", "--out", "--watch",
    ];
    let ended = stub.run(&args).await;
    assert_eq!(
        ended.data,
        format!("scale of vnf-a is COMPLETED (operation {OP})\n")
    );
    let expected = "\
size before: clients 1 of 3; 1 master
COMPLETED
size after: clients 2 of 3; 1 master
";
    assert_eq!((ended.code, ended.messages.as_str()), (0, expected));
}

#[tokio::test]
async fn an_instance_with_aspects_is_shown_with_their_levels() {
    let stub = Stub::new([(INSTANCES, ok(&json!([scalable()])))]).await;
    let ended = stub.run(&["vnf", "show", "vnf-a"]).await;
    assert!(
        ended.data.contains("\nscale        clients 1 of 3\n"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_modification_is_sent_as_a_merge_patch() {
    let task = format!("PATCH /vnflcm/v2/vnf_instances/{VNF}");
    let stub = Stub::new([(INSTANCES, ok(&json!([instance()]))), (&task, accepted())]).await;
    let args = [
        "--name",
        "new",
        "--metadata",
        "a.b=1",
        "--metadata",
        "c=null",
        "--extension",
        "e=x",
    ];
    let ended = stub
        .run(&[&["vnf", "modify", "vnf-a"][..], &args].concat())
        .await;
    let expected = format!("modify of vnf-a accepted as operation {OP}\n");
    assert_eq!(
        (ended.code, ended.data),
        (0, expected),
        "{}",
        ended.messages
    );
    let sent = stub
        .requests()
        .into_iter()
        .find(|request| request.target == task)
        .unwrap();
    let expected = json!({"vnfInstanceName": "new", "metadata": {"a": {"b": 1}, "c": null}, "extensions": {"e": "x"}});
    assert_eq!(sent.body, expected);
    assert_eq!(sent.headers["content-type"], "application/merge-patch+json");
}

#[tokio::test]
async fn a_subscription_is_created_with_filter_and_login() {
    const POST: &str = "POST /vnflcm/v2/subscriptions";
    let shown = json!({"id": "s-1", "callbackUri": "http://nfvo/hook", "verbosity": "SHORT"});
    let stub = Stub::new([
        (INSTANCES, ok(&json!([instance()]))),
        (POST, at(201, "/vnflcm/v2/subscriptions/s-1", &shown)),
    ])
    .await;
    let what = [
        "--state",
        "COMPLETED",
        "--vnf",
        "vnf-a",
        "--short",
        "--user",
        "vnfm",
    ];
    let args = [&["subscription", "create", "http://nfvo/hook"][..], &what].concat();
    let ended = stub.run_with(&args, "hunter2\n").await;
    assert_eq!(
        (ended.code, ended.data.as_str()),
        (0, "subscribed http://nfvo/hook as s-1\n")
    );
    let sent = stub
        .requests()
        .into_iter()
        .find(|request| request.target == POST)
        .unwrap();
    let expected = json!({
        "callbackUri": "http://nfvo/hook",
        "verbosity": "SHORT",
        "filter": {
            "notificationTypes": ["VnfLcmOperationOccurrenceNotification"],
            "operationStates": ["COMPLETED"],
            "vnfInstanceSubscriptionFilter": {"vnfInstanceIds": [VNF]},
        },
        "authentication": {"authType": ["BASIC"], "paramsBasic": {"userName": "vnfm", "password": "hunter2"}},
    });
    assert_eq!(sent.body, expected);
}

#[tokio::test]
async fn an_identical_subscription_is_reported() {
    const PATH: &str = "/vnflcm/v2/subscriptions/s1";
    let shown = json!({"id": "s1", "callbackUri": "http://nfvo/hook", "verbosity": "FULL"});
    let stub = Stub::new([
        ("POST /vnflcm/v2/subscriptions", at(303, PATH, &Value::Null)),
        ("GET /vnflcm/v2/subscriptions/s1", ok(&shown)),
        ("GET /vnflcm/v2/subscriptions", ok(&json!([shown]))),
        ("DELETE /vnflcm/v2/subscriptions/s1", ok(&Value::Null)),
    ])
    .await;
    let list =
        "ID  CALLBACK          VERBOSITY  TYPES  OPERATIONS  STATES\ns1  http://nfvo/hook  FULL\n";
    for (args, expected) in [
        (
            &["create", "http://nfvo/hook"][..],
            "http://nfvo/hook already has an identical subscription, s1\n",
        ),
        (&["list"], list),
        (
            &["show", "s1"],
            "id          s1\ncallback    http://nfvo/hook\nverbosity   FULL\n",
        ),
        (&["delete", "s1"], "deleted subscription s1\n"),
    ] {
        let ended = stub.run(&[&["subscription"][..], args].concat()).await;
        assert_eq!(
            (ended.code, ended.data.as_str()),
            (0, expected),
            "{}",
            ended.messages
        );
    }
}

#[tokio::test]
async fn overrides_require_a_reason() {
    let of_instance = |task: &str| format!("POST /vnflcm/v2/vnf_instances/{VNF}/{task}");
    let (terminate, heal) = (of_instance("terminate"), of_instance("heal"));
    let abandon = format!("POST /vnfm/v1/vnf_instances/{VNF}/abandon?force=true");
    let stub = Stub::new([
        (INSTANCES, ok(&json!([instance()]))),
        ("GET /vnfm/v1/vims/cloud", ok(&json!({"id": "v-1"}))),
        ("DELETE /vnfm/v1/vims/v-1?force=true", ok(&Value::Null)),
        ("DELETE /vnfm/v1/orphans/i%2D1", ok(&Value::Null)),
        (&terminate, accepted()),
        (&heal, accepted()),
        (&abandon, ok(&Value::Null)),
    ])
    .await;
    let why = ["--reason", "burnt – down"];
    let skip = [
        "--skip-hook",
        "terminate_start",
        "--skip-hook",
        "terminate_end",
    ];
    for (args, expected) in [
        (
            [&["vnf", "terminate", "vnf-a"][..], &skip].concat(),
            "terminate of vnf-a accepted",
        ),
        (
            vec!["vnf", "heal", "vnf-a", "--skip-hook", "heal_start"],
            "heal of vnf-a accepted",
        ),
        (
            vec!["vnf", "abandon", "vnf-a", "--force"],
            "abandoned VNF instance vnf-a; `vnfmctl orphans` lists the resources that it left",
        ),
        (
            vec!["vim", "delete", "cloud", "--force"],
            "deleted VIM cloud",
        ),
        (
            vec!["orphans", "--forget", "i-1"],
            "forgot the abandoned VNF instance i-1",
        ),
    ] {
        assert_eq!(stub.run(&args).await.code, 2, "{args:?} needs a reason");
        let ended = stub.run(&[&args[..], &why].concat()).await;
        let is_done = ended.code == 0 && ended.data.starts_with(expected);
        assert!(is_done, "{args:?}: {ended:?}");
        let headers = stub.requests().last().unwrap().headers.clone();
        assert_eq!(
            headers["x-vnfm-reason"].as_bytes(),
            "burnt – down".as_bytes(),
            "{args:?}"
        );
        if args.contains(&"terminate_start") {
            assert_eq!(
                headers["x-vnfm-skip-hooks"],
                "terminate_start,terminate_end"
            );
        }
    }
}

#[tokio::test]
async fn cancel_and_fail_say_what_happens_next_and_send_the_reason() {
    let ops = "/vnflcm/v2/vnf_lcm_op_occs";
    let (cancel, fail) = (
        format!("POST {ops}/op-1/cancel"),
        format!("POST {ops}/op-1/fail"),
    );
    let failed = json!({"id": "op-1", "operationState": "FAILED", "vnfInstanceId": "i-1"});
    let stub = Stub::new([
        (cancel.as_str(), ok(&Value::Null)),
        (fail.as_str(), ok(&failed)),
    ])
    .await;
    for (args, words) in [
        (
            &["op", "cancel", "op-1"][..],
            ["after its current step", "vnfmctl op watch op-1"],
        ),
        (
            &["op", "cancel", "op-1", "--forceful"],
            ["stops now", "FAILED_TEMP"],
        ),
        (
            &["op", "fail", "op-1"],
            ["is FAILED", "vnfmctl vnf show i-1"],
        ),
    ] {
        let ended = stub.run(&[args, &["--reason", "it hangs"]].concat()).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(
            words.iter().all(|word| ended.data.contains(word)),
            "{ended:?}"
        );
        let headers = stub.requests().last().unwrap().headers.clone();
        assert_eq!(headers["x-vnfm-reason"], "it hangs");
    }
}

#[tokio::test]
async fn host_keys_are_listed_and_forgotten() {
    let key = json!({"id": "k-1", "host": "192.0.2.1:22", "vimId": "v-1", "fingerprints": ["SHA256:abc (ssh-ed25519)"]});
    let stub = Stub::new([
        ("GET /vnfm/v1/hostkeys", ok(&json!([key]))),
        ("DELETE /vnfm/v1/hostkeys/k%2D1", ok(&Value::Null)),
    ])
    .await;
    let listed = stub.run(&["hostkey", "list"]).await;
    for word in ["k-1", "192.0.2.1:22", "v-1", "SHA256:abc"] {
        assert!(listed.data.contains(word), "{listed:?}");
    }
    let forgot = stub.run(&["hostkey", "forget", "k-1"]).await;
    let expected = "forgot host key k-1; the next key that the host shows is trusted\n";
    assert_eq!(
        (forgot.code, forgot.data.as_str()),
        (0, expected),
        "{}",
        forgot.messages
    );
}

#[tokio::test]
async fn the_audit_log_is_read_page_by_page() {
    let entry = |seq: u64, what: &str| {
        json!({"seq": seq, "at": "2026-01-01T00:00:00Z", "who": "ann", "what": what,
            "target": "i-1", "name": "web", "reason": "gone", "from": "192.0.2.1", "status": 202})
    };
    let stub = Stub::new([
        (
            "GET /vnfm/v1/audit?after=0",
            ok(&json!([entry(1, "op fail"), entry(2, "vnf abandon")])),
        ),
        ("GET /vnfm/v1/audit?after=2", ok(&json!([]))),
    ])
    .await;
    let ended = stub.run(&["audit"]).await;
    let expected = "\
AT                    WHO  WHAT         NAME  ID   REASON  FROM       ANSWER
2026-01-01T00:00:00Z  ann  op fail      web   i-1  gone    192.0.2.1  202
2026-01-01T00:00:00Z  ann  vnf abandon  web   i-1  gone    192.0.2.1  202
";
    assert_eq!(
        (ended.code, ended.data.as_str()),
        (0, expected),
        "{}",
        ended.messages
    );
}

/// A plan as the server responds with it, with a name that would clear the screen.
fn scaling_plan() -> Value {
    json!({
        "operation": "SCALE", "changes": true,
        "steps": [
            {"name": "scale_start", "state": "PROCESSING", "driver": "web@1.0.0", "undone": true, "irreversible": false},
            {"name": "remove", "state": "PROCESSING", "undone": false, "irreversible": true},
        ],
        "resources": [
            {"kind": "Deployment", "name": "web", "action": "UPDATE", "because": ["spec.replicas"]},
            {"kind": "Pod", "name": "web-1\u{1b}[2J", "vdu": "web", "vnfc": "v", "action": "DELETE"},
        ],
        "unknown": ["what the hook `scale_start` of `web@1.0.0` does"],
    })
}

#[tokio::test]
async fn a_plan_is_shown_and_its_exit_code_tells_whether_something_would_change() {
    let path = format!("POST /vnfm/v1/vnf_instances/{VNF}/plan");
    let plan = scaling_plan();
    let mut nothing = plan.clone();
    nothing["changes"] = json!(false);
    nothing["unknown"] = json!([]);
    nothing["resources"] = json!([]);
    nothing["steps"] = json!([]);
    let stub = |plan: &Value| {
        let canned = ok(plan);
        let path = path.clone();
        async move { Stub::new([(INSTANCES, ok(&json!([scalable()]))), (&*path, canned)]).await }
    };
    let some = stub(&plan).await;
    let args = [
        "vnf", "scale", "vnf-a", "--aspect", "clients", "--in", "--plan",
    ];
    let ended = some.run(&args).await;
    let expected = "\
STEP         STATE       HOOK OF    ROLLBACK
scale_start  PROCESSING  web@1.0.0  undoes it
remove       PROCESSING             impossible once it has begun

ACTION  KIND        NAME            VDU  BECAUSE OF
UPDATE  Deployment  web                  spec.replicas
DELETE  Pod         web-1\\u{1b}[2J  web

Not known before it runs:
  what the hook `scale_start` of `web@1.0.0` does
";
    assert_eq!((ended.code, ended.data.as_str()), (9, expected));
    let message = "plan: scale of vnf-a would change something; nothing was changed\n";
    assert!(ended.messages.ends_with(message), "{}", ended.messages);
    let request = json!({"type": "SCALE_IN", "aspectId": "clients", "numberOfSteps": 1});
    let sent = some.requests().pop().unwrap();
    assert_eq!(sent.body, json!({"operation": "SCALE", "request": request}));
    let json = some.run(&[&["-o", "json"], &args[..]].concat()).await;
    assert_eq!(json.code, 9);
    assert_eq!(serde_json::from_str::<Value>(&json.data).unwrap(), plan);
    let none = stub(&nothing).await;
    let ended = none.run(&args).await;
    assert_eq!(ended.code, 0, "{}", ended.messages);
    assert!(
        ended
            .data
            .ends_with("scale of vnf-a would change nothing\n")
    );
    let skipping = [
        "vnf",
        "heal",
        "vnf-a",
        "--skip-hook",
        "heal_end",
        "--reason",
        "it hangs",
    ];
    let ended = some.run(&[&skipping[..], &["--plan"]].concat()).await;
    assert_eq!(ended.code, 9, "{}", ended.messages);
    let sent = some.requests().pop().unwrap();
    assert_eq!(sent.headers["x-vnfm-skip-hooks"], "heal_end");
    assert_eq!(sent.body["operation"], "HEAL");
    let both = some.run(&[&args[..], &["--watch"]].concat()).await;
    assert_eq!(both.code, 2);
}
