//! OpenStack: life cycle of stacks, errors, quotas, images, servers.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, read, three_servers, until, world};

#[tokio::test]
async fn deleting_a_stack_of_three_servers_leaves_nothing_behind() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let stack = nfv
        .stack(
            "vnf-1",
            &three_servers(),
            json!({ "tags": "vnfm-x,vnfm-op-y" }),
        )
        .await;
    assert_eq!(stack["stack_status"], "CREATE_COMPLETE");
    assert_eq!(stack["tags"], json!(["vnfm-x", "vnfm-op-y"]));
    let block = world
        .endpoints()
        .address_block
        .trim_end_matches("0/24")
        .to_owned();
    let addresses: Vec<&str> = stack["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["output_value"].as_str().unwrap())
        .collect();
    assert!(
        addresses.len() == 3 && addresses.iter().all(|a| a.starts_with(&block)),
        "{addresses:?} in {block}"
    );

    check_stack_records(&nfv, &stack).await;
    check_servers(&nfv, &block).await;

    nfv.delete(&stack).await;
    assert_eq!(world.ledger().left_behind(), []);
    let path = format!("/stacks/vnf-1/{}", stack["id"].as_str().unwrap());
    let again = nfv
        .ask(Method::DELETE, ("orchestration", &path), None)
        .await
        .unwrap();
    assert_eq!(
        (again.status.as_u16(), again.message()),
        (404, "The Stack (vnf-1) could not be found.")
    );
    assert_eq!(world.ledger().violations(), Vec::<String>::new());
}

/// The stack `vnf-1` is found by name, and its six resources are complete.
async fn check_stack_records(nfv: &Client, stack: &Value) {
    let found = nfv.get("orchestration", "/stacks/vnf-1").await;
    assert_eq!(
        (
            found.status.as_u16(),
            found.headers["location"].to_str().unwrap()
        ),
        (302, stack["links"][0]["href"].as_str().unwrap())
    );
    let path = format!(
        "/stacks/vnf-1/{}/resources?nested_depth=2",
        stack["id"].as_str().unwrap()
    );
    let resources = nfv.get("orchestration", &path).await.body["resources"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(resources.len(), 6);
    assert!(
        resources
            .iter()
            .all(|r| r["resource_status"] == "CREATE_COMPLETE" && r["physical_resource_id"] != "")
    );
}

/// Three servers have addresses in the world's block, a port each, and a console with the host's keys.
async fn check_servers(nfv: &Client, block: &str) {
    let servers = nfv.get("compute", "/servers/detail").await.body["servers"].clone();
    assert_eq!(servers.as_array().unwrap().len(), 3);
    assert!(
        servers[0]["addresses"]["provider"][0]["addr"]
            .as_str()
            .unwrap()
            .starts_with(block)
    );
    let id = servers[0]["id"].as_str().unwrap().to_owned();
    let ports = nfv
        .get("network", &format!("/v2.0/ports?device_id={id}"))
        .await
        .body["ports"]
        .clone();
    assert_eq!(ports.as_array().unwrap().len(), 1);
    let console = json!({ "os-getConsoleOutput": { "length": 500 } });
    let console_path = format!("/servers/{id}/action");
    until("the host has printed its keys", || async {
        let answer = nfv
            .ask(Method::POST, ("compute", &console_path), Some(&console))
            .await
            .unwrap();
        answer.body["output"]
            .as_str()?
            .contains("-----BEGIN SSH HOST KEY KEYS-----")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_host_listens_on_the_address_of_its_servers_port() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let stack = nfv.stack("vnf-1", &three_servers(), json!({})).await;
    let address = stack["outputs"][0]["output_value"]
        .as_str()
        .unwrap()
        .to_owned();
    let at = (address.as_str(), world.endpoints().ssh_port);
    until("sshd answers", || async {
        tokio::net::TcpStream::connect(at).await.ok()
    })
    .await;
    nfv.delete(&stack).await;
    until("sshd stops", || async {
        tokio::net::TcpStream::connect(at).await.err()
    })
    .await;
}

/// A stack of an `AutoScalingGroup` and a `ResourceGroup`, two nested stacks with a server each.
async fn stack_of_groups(nfv: &Client) -> Value {
    let worker = "heat_template_version: 2018-08-31\nparameters:\n  flavor: {type: string}\n  name: {type: string, default: w}\nresources:\n  port: {type: OS::Neutron::Port, properties: {network: provider}}\n  server: {type: OS::Nova::Server, properties: {name: {get_param: name}, flavor: {get_param: flavor}, image: nfv-image, networks: [{port: {get_resource: port}}]}}\noutputs:\n  ip: {value: {get_attr: [port, fixed_ips, 0, ip_address]}}\n";
    let template = "heat_template_version: 2018-08-31\nparameters:\n  nfv: {type: json}\nresources:\n  asg:\n    type: OS::Heat::AutoScalingGroup\n    properties: {min_size: 0, max_size: 5, desired_capacity: {get_param: [nfv, desired]}, resource: {type: worker.yaml, properties: {flavor: {get_param: [nfv, VDU, worker, flavor]}}}}\n  rg:\n    type: OS::Heat::ResourceGroup\n    properties: {count: 2, resource_def: {type: worker.yaml, properties: {flavor: m1.nano, name: 'rg-%index%'}}}\noutputs:\n  asg_ips: {value: {get_attr: [asg, outputs_list, ip]}}\n  rg_ips: {value: {get_attr: [rg, ip]}}\n  first: {value: {get_attr: [rg, resource.0, ip]}}\n";
    let more = json!({ "files": { "worker.yaml": worker }, "parameters": { "nfv": { "desired": 2, "VDU": { "worker": { "flavor": "m1.tiny" } } } } });
    nfv.stack("top", &json!(template), more).await
}

#[tokio::test]
async fn groups_create_nested_stacks_with_outputs_and_grow_on_update() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let stack = stack_of_groups(&nfv).await;
    assert_eq!(
        stack["stack_status"], "CREATE_COMPLETE",
        "{}",
        stack["stack_status_reason"]
    );
    let output = |key: &str| {
        stack["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|o| o["output_key"] == key)
            .unwrap()["output_value"]
            .clone()
    };
    assert_eq!(
        (
            output("asg_ips").as_array().unwrap().len(),
            output("rg_ips").as_array().unwrap().len()
        ),
        (2, 2)
    );
    assert_eq!(output("first"), output("rg_ips")[0]);

    let id = stack["id"].as_str().unwrap();
    let resources = nfv
        .get(
            "orchestration",
            &format!("/stacks/top/{id}/resources?nested_depth=3"),
        )
        .await
        .body["resources"]
        .as_array()
        .unwrap()
        .clone();
    let servers: Vec<&Value> = resources
        .iter()
        .filter(|r| r["resource_type"] == "OS::Nova::Server")
        .collect();
    assert_eq!(servers.len(), 4);
    assert!(servers.iter().all(|s| s["parent_resource"].is_string()));
    let names = nfv.get("compute", "/servers/detail").await.body["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    assert!(
        names.contains(&"rg-0".to_owned()) && names.contains(&"rg-1".to_owned()),
        "{names:?}"
    );

    let stack = grow_group(&nfv, id).await;
    nfv.delete(&stack).await;
    assert_eq!(world.ledger().left_behind(), []);
}

/// Sets the group's desired capacity to 3 by PATCH, which makes five servers.
async fn grow_group(nfv: &Client, id: &str) -> Value {
    let grown = json!({ "parameters": { "nfv": { "desired": 3, "VDU": { "worker": { "flavor": "m1.tiny" } } } } });
    let patched = nfv
        .ask(
            Method::PATCH,
            ("orchestration", &format!("/stacks/top/{id}")),
            Some(&grown),
        )
        .await
        .unwrap();
    assert_eq!(patched.status, 202);
    let stack = nfv.settled("top", id).await;
    assert_eq!(
        stack["stack_status"], "UPDATE_COMPLETE",
        "{}",
        stack["stack_status_reason"]
    );
    assert_eq!(
        nfv.get("compute", "/servers").await.body["servers"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    stack
}

/// Templates that Heat refuses, each with a part of Heat's message.
fn invalid_templates() -> [(Value, &'static str); 6] {
    let template = |kind: &str, properties: Value| json!({ "heat_template_version": "2018-08-31", "resources": { "s": { "type": kind, "properties": properties } } });
    [
        (
            template("OS::No::Such", json!({})),
            "The Resource Type (OS::No::Such) could not be found.",
        ),
        (
            template(
                "OS::Nova::Server",
                json!({ "flavor": "no-such", "image": "nfv-image" }),
            ),
            "No Flavor matching {'name': 'no-such'}. (HTTP 404)",
        ),
        (
            template(
                "OS::Nova::Server",
                json!({ "flavor": "m1.nano", "image": "no-such" }),
            ),
            "No images matching",
        ),
        (
            template("OS::Neutron::Port", json!({ "network": "no-such" })),
            "Unable to find network with name or id 'no-such'",
        ),
        (
            template(
                "OS::Nova::Server",
                json!({ "flavor": "m1.nano", "colour": "red" }),
            ),
            "Unknown Property colour",
        ),
        (
            template("OS::Nova::Server", json!({ "image": "nfv-image" })),
            "Property flavor not assigned",
        ),
    ]
}

#[tokio::test]
async fn invalid_stacks_get_heats_errors_and_create_nothing() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    for (template, words) in invalid_templates() {
        let refused = nfv.create("x", &template, json!({})).await;
        assert!(
            refused.status == 400 && refused.message().contains(words),
            "{}",
            refused.body
        );
    }
    let bad_name = nfv.create("x y", &three_servers(), json!({})).await;
    assert!(
        bad_name.status == 400
            && bad_name
                .message()
                .starts_with("Invalid stack name x y must contain only"),
        "{}",
        bad_name.body
    );
    nfv.stack(
        "dup",
        &json!({ "heat_template_version": "2018-08-31" }),
        json!({}),
    )
    .await;
    let twice = nfv.create("dup", &three_servers(), json!({})).await;
    assert_eq!(
        (twice.status.as_u16(), twice.message()),
        (409, "The Stack (dup) already exists.")
    );
    let both = nfv.get("orchestration", "/stacks?name=dup&tags=a").await;
    assert_eq!(
        (both.status.as_u16(), both.body["error"]["type"].as_str()),
        (500, Some("RemoteError"))
    );
    assert_eq!(
        world
            .ledger()
            .left_behind()
            .iter()
            .map(|e| e.kind.as_str())
            .collect::<Vec<_>>(),
        ["stack"]
    );
}

#[tokio::test]
async fn an_exceeded_quota_fails_the_stack_and_rollback_leaves_only_its_record() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    world.cloud().set_quota("instances", 2);
    let stack = nfv.stack("small", &three_servers(), json!({})).await;
    assert_eq!(stack["stack_status"], "CREATE_FAILED");
    let reason = stack["stack_status_reason"].as_str().unwrap();
    assert!(
        reason.starts_with("Resource CREATE failed: Forbidden: resources.")
            && reason.contains("but already used 2 of 2 instances (HTTP 403)"),
        "{reason}"
    );
    nfv.delete(&stack).await;
    let stack = nfv
        .stack(
            "rolled",
            &three_servers(),
            json!({ "disable_rollback": false }),
        )
        .await;
    let stack = if stack["stack_status"] == "CREATE_FAILED" {
        nfv.settled("rolled", stack["id"].as_str().unwrap()).await
    } else {
        stack
    };
    assert_eq!(stack["stack_status"], "ROLLBACK_COMPLETE");
    assert_eq!(
        world
            .ledger()
            .left_behind()
            .iter()
            .map(|e| e.name.as_str())
            .collect::<Vec<_>>(),
        ["rolled"]
    );
}

#[tokio::test]
async fn an_image_can_be_created_uploaded_found_and_deleted() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let created = nfv
        .ask(
            Method::POST,
            ("image", "/v2/images"),
            Some(&json!({ "name": "own", "disk_format": "qcow2", "container_format": "bare" })),
        )
        .await
        .unwrap();
    assert_eq!(
        (created.status.as_u16(), created.body["status"].as_str()),
        (201, Some("queued"))
    );
    let id = created.body["id"].as_str().unwrap();
    let upload = nfv
        .http
        .put(format!("{}/v2/images/{id}/file", nfv.url("image")))
        .header("x-auth-token", &nfv.token)
        .body("qcow");
    assert_eq!(read(upload).await.unwrap().status, 204);
    let found = nfv.get("image", "/v2/images?name=own").await.body["images"].clone();
    assert_eq!(
        (found[0]["status"].as_str(), found[0]["size"].as_u64()),
        (Some("active"), Some(4))
    );
    assert_eq!(
        nfv.ask(Method::DELETE, ("image", &format!("/v2/images/{id}")), None)
            .await
            .unwrap()
            .status,
        204
    );
    assert_eq!(
        nfv.get("image", "/v2/images?name=own").await.body["images"],
        json!([])
    );
    let public = json!({ "name": "p", "visibility": "public" });
    assert_eq!(
        nfv.ask(Method::POST, ("image", "/v2/images"), Some(&public))
            .await
            .unwrap()
            .status,
        403
    );
}

#[tokio::test]
async fn check_finds_a_missing_server_and_an_update_recreates_it() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let stack = nfv.stack("vnf-1", &three_servers(), json!({})).await;
    let id = stack["id"].as_str().unwrap();
    assert!(world.cloud().delete_server("worker0"));
    let path = format!("/stacks/vnf-1/{id}");
    nfv.ask(
        Method::POST,
        ("orchestration", &format!("{path}/actions")),
        Some(&json!({ "check": null })),
    )
    .await
    .unwrap();
    let checked = nfv.settled("vnf-1", id).await;
    assert_eq!(checked["stack_status"], "CHECK_FAILED");
    assert!(
        checked["stack_status_reason"]
            .as_str()
            .unwrap()
            .contains("could not be found")
    );
    assert_eq!(
        nfv.ask(Method::PATCH, ("orchestration", &path), Some(&json!({})))
            .await
            .unwrap()
            .status,
        202
    );
    let healed = nfv.settled("vnf-1", id).await;
    assert_eq!(healed["stack_status"], "UPDATE_COMPLETE");
    assert!(healed["tags"].is_null());
    let names: Vec<String> = world
        .ledger()
        .inventory()
        .into_iter()
        .filter(|e| e.kind == "server")
        .map(|e| e.name)
        .collect();
    assert!(
        names.len() == 3 && names.contains(&"worker0".to_owned()),
        "{names:?}"
    );
}

#[tokio::test]
async fn an_unmodelled_request_gets_501_and_is_a_violation() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let answer = nfv.get("compute", "/os-hypervisors/detail").await;
    assert_eq!(answer.status, 501);
    assert_eq!(
        world.ledger().violations(),
        ["nova: `GET /v2.1/os-hypervisors/detail` is not modelled"]
    );
}
