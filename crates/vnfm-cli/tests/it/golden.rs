//! The exact output of commands, and the requests that they send.

use crate::stub::{OP, Stub, VNF, accepted, events, ok, progress};
use serde_json::{Value, json};
use std::io::Write as _;

pub(crate) const PACKAGES: &str = "GET /vnfpkgm/v2/vnf_packages";
pub(crate) const INSTANCES: &str =
    "GET /vnflcm/v2/vnf_instances?all_fields&filter=%28eq%2CvnfInstanceName%2C%27vnf%2Da%27%29";

pub(crate) fn instance() -> Value {
    let cp = |address: &str| {
        json!({"id": "c", "cpdId": "d", "cpProtocolInfo": [{"layerProtocol": "IP_OVER_ETHERNET",
            "ipOverEthernet": {"ipAddresses": [{"type": "IPV4", "addresses": [address]}]}}]})
    };
    json!({
        "id": VNF, "vnfInstanceName": "vnf-a", "vnfdId": "vnfd-1", "vnfProvider": "p", "vnfProductName": "Cluster",
        "vnfSoftwareVersion": "1.0", "vnfdVersion": "1.1", "instantiationState": "INSTANTIATED",
        "vimConnectionInfo": {"vim1": {"vimId": "v-1", "vimType": "ETSINFV.KUBERNETES.V_1"}},
        "instantiatedVnfInfo": {"flavourId": "simple", "vnfState": "STARTED", "extCpInfo": [], "vnfcResourceInfo": [{
            "id": "1", "vduId": "master", "computeResource": {"resourceId": "s-1", "vimLevelResourceType": "OS::Nova::Server"},
            "vnfcCpInfo": [cp("192.0.2.1"), cp("10.0.0.1")], "metadata": {"name": "master-0"},
        }]},
        "_links": {"self": {"href": "h"}},
    })
}

#[tokio::test]
async fn lists_are_printed_as_tables_without_trailing_blanks() {
    let package = json!({"id": "p-1", "vnfdId": "vnfd-1", "vnfProductName": "Cluster", "vnfSoftwareVersion": "1.0",
        "onboardingState": "ONBOARDED", "usageState": "IN_USE"});
    let stub = Stub::new([(
        PACKAGES,
        ok(&json!([package, {"id": "p-2", "onboardingState": "CREATED"}])),
    )])
    .await;
    let ended = stub.run(&["package", "list"]).await;
    let expected = "\
PRODUCT  VERSION  ID   VNFDID  STATE      USAGE
Cluster  1.0      p-1  vnfd-1  ONBOARDED  IN_USE
                  p-2          CREATED
";
    assert_eq!(
        (ended.code, ended.data.as_str(), ended.messages.as_str()),
        (0, expected, "")
    );
    assert_eq!(
        stub.requests()[0].headers["authorization"],
        "Bearer planted-token"
    );
}

#[tokio::test]
async fn a_list_requests_only_the_attributes_that_it_shows() {
    let all = "GET /vnflcm/v2/vnf_instances?fields=instantiatedVnfInfo%2FvnfcResourceInfo";
    let some = "GET /vnflcm/v2/vnf_instances?fields=id%2Cmetadata%2Fsite\
                &filter=%28cont%2CvnfInstanceName%2Cvnf%29";
    let mut shown = instance();
    shown["metadata"] = json!({"site": "oslo"});
    let stub = Stub::new([(all, ok(&json!([instance()]))), (some, ok(&json!([shown])))]).await;
    let ended = stub.run(&["vnf", "list"]).await;
    assert!(ended.data.contains("INSTANTIATED  simple"), "{ended:?}");
    let args = [
        "--filter",
        "(cont,vnfInstanceName,vnf)",
        "--fields",
        "id,metadata/site",
    ];
    let ended = stub.run(&[&["vnf", "list"][..], &args].concat()).await;
    let id = "ID".to_owned() + &" ".repeat(VNF.len() - 2);
    assert_eq!(
        ended.data,
        format!("{id}  METADATA/SITE\n{VNF}  oslo\n"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn an_instance_is_shown_with_its_vims_and_vnfcs() {
    let stub = Stub::new([(INSTANCES, ok(&json!([instance()])))]).await;
    let ended = stub.run(&["vnf", "show", "vnf-a"]).await;
    let expected = format!(
        "\
name         vnf-a
id           {VNF}
vnfdId       vnfd-1
provider     p
product      Cluster
software     1.0
state        INSTANTIATED
vnfState     STARTED
flavour      simple
vims         vim1 = v-1 (ETSINFV.KUBERNETES.V_1)
VDU     VNFC      VNFC ID  TYPE              RESOURCE  STATE  ADDRESSES
master  master-0  1        OS::Nova::Server  s-1              192.0.2.1, 10.0.0.1
"
    );
    assert_eq!(
        (ended.code, ended.data),
        (0, expected),
        "{}",
        ended.messages
    );
}

#[tokio::test]
async fn operations_are_listed_newest_first_with_names_and_ages() {
    let op = |id: &str, vnf: &str, started: &str| {
        json!({"id": id, "vnfInstanceId": vnf, "operation": "HEAL", "operationState": "COMPLETED",
            "startTime": started})
    };
    let now = jiff::Timestamp::now();
    let recent = now - jiff::SignedDuration::from_secs(7_500);
    let recent = recent.round(jiff::Unit::Second).unwrap().to_string();
    let ops = [
        op("o-1", "gone", "2026-01-01T00:00:00.25Z"),
        op("o-2", VNF, &recent),
        op("o-3", VNF, "2026-01-01T00:00:00Z"),
    ];
    let names = format!(
        "GET /vnflcm/v2/vnf_instances?fields=vnfInstanceName&filter=%28in%2Cid%2C{}%2Cgone%29",
        VNF.replace('-', "%2D")
    );
    let stub = Stub::new([
        ("GET /vnflcm/v2/vnf_lcm_op_occs", ok(&json!(ops))),
        (
            &names,
            ok(&json!([{"id": VNF, "vnfInstanceName": "vnf-a"}])),
        ),
    ])
    .await;
    let ended = stub.run(&["op", "list"]).await;
    let lines: Vec<Vec<_>> = ended
        .data
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(ended.code, 0, "{}", ended.messages);
    assert_eq!(
        lines[0],
        ["ID", "VNF", "OPERATION", "STATE", "STARTED", "AGE"]
    );
    assert_eq!(
        lines[1],
        ["o-2", "vnf-a", "HEAL", "COMPLETED", &recent, "2h"]
    );
    assert_eq!(lines[2][..2], ["o-1", "gone"]);
    assert_eq!(lines[3][..2], ["o-3", "vnf-a"]);
}

#[tokio::test]
async fn a_vnfc_to_heal_is_named_by_id_or_name() {
    let task = format!("POST /vnflcm/v2/vnf_instances/{VNF}/heal");
    for (named, sent) in [("master-0", "1"), ("1", "1"), ("other", "other")] {
        let stub = Stub::new([(INSTANCES, ok(&json!([instance()]))), (&task, accepted())]).await;
        let ended = stub.run(&["vnf", "heal", "vnf-a", "--vnfc", named]).await;
        assert_eq!(ended.code, 0, "{}", ended.messages);
        let request = stub.requests().pop().unwrap();
        assert_eq!(request.body["vnfcInstanceId"], json!([sent]));
    }
}

#[tokio::test]
async fn json_and_yaml_are_what_the_server_sent() {
    let stub = Stub::new([(INSTANCES, ok(&json!([instance()])))]).await;
    let as_json = stub.run(&["-o", "json", "vnf", "show", "vnf-a"]).await;
    assert_eq!(
        serde_json::from_str::<Value>(&as_json.data).unwrap(),
        instance()
    );
    let as_yaml = stub.run(&["vnf", "show", "vnf-a", "-o", "yaml"]).await;
    assert_eq!(
        serde_yaml::from_str::<Value>(&as_yaml.data).unwrap(),
        instance()
    );
}

#[tokio::test]
async fn an_operation_is_watched_until_it_finishes() {
    let request = json!({"flavourId": "simple", "additionalParams": {"a": {"b": 1}}}).to_string();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(request.as_bytes()).unwrap();
    let task = format!("POST /vnflcm/v2/vnf_instances/{VNF}/instantiate");
    let (stream, state) = (
        format!("GET /vnfm/v1/op_occs/{OP}/events"),
        format!("GET /vnfm/v1/op_occs/{OP}/progress"),
    );
    let waiting = json!({"step": "allocate", "waiting": {"for": "stack `s`", "since": "2026-01-01T00:00:00Z"}});
    let hook = json!({"step": "instantiate_end", "percent": 10, "message": "hosts are reached", "attempt": 2});
    let end = progress("COMPLETED", &Value::Null);
    let all = [
        progress("STARTING", &Value::Null),
        progress("PROCESSING", &waiting),
        progress("PROCESSING", &hook),
        end.clone(),
    ];
    let stub = Stub::new([
        (INSTANCES, ok(&json!([instance()]))),
        (
            "GET /vnfm/v1/vims/cloud",
            ok(&json!({"id": "v-1", "vimType": "T"})),
        ),
        (&task, accepted()),
        (&stream, events(&all)),
        (&state, ok(&end)),
        (
            &format!("GET /vnflcm/v2/vnf_lcm_op_occs/{OP}"),
            ok(&json!({"id": OP})),
        ),
    ])
    .await;
    let file = file.path().to_str().unwrap();
    let args =
        format!("vnf instantiate vnf-a --request {file} --vim cloud --param a.c=[2] --watch");
    let args: Vec<&str> = args.split(' ').collect();
    let ended = stub.run(&args).await;
    assert_eq!(
        ended.data,
        format!("instantiate of vnf-a is COMPLETED (operation {OP})\n")
    );
    let expected = "\
STARTING
PROCESSING allocate, waiting for stack `s`
PROCESSING instantiate_end (attempt 2): hosts are reached
COMPLETED
";
    assert_eq!((ended.code, ended.messages.as_str()), (0, expected));
    let sent = stub
        .requests()
        .into_iter()
        .find(|request| request.target == task)
        .unwrap()
        .body;
    let expected = json!({"flavourId": "simple", "additionalParams": {"a": {"b": 1, "c": [2]}},
        "vimConnectionInfo": {"vim1": {"vimId": "v-1", "vimType": "T"}}});
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn explain_shows_what_an_operation_waits_for_and_what_it_can_do_next() {
    let picture = progress(
        "PROCESSING",
        &json!({
            "step": "allocate", "message": "half of it",
            "waiting": {"for": "stack `s`", "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:30:00Z"},
            "steps": [{"name": "check_vim", "status": "done", "startedAt": "2026-01-01T00:00:00Z"},
                      {"name": "allocate", "status": "planned"}],
            "waysOn": [{"task": "cancel", "allowed": true, "what": "stops it"},
                       {"task": "retry", "allowed": false, "what": "it runs"}],
        }),
    );
    let stub = Stub::new([(
        &*format!("GET /vnfm/v1/op_occs/{OP}/progress"),
        ok(&picture),
    )])
    .await;
    let ended = stub.run(&["op", "explain", OP]).await;
    let expected = format!(
        "\
operation {OP} is PROCESSING
  check_vim          done since 2026-01-01T00:00:00Z
  allocate           planned
doing: half of it
waiting for: stack `s` since 2026-01-01T00:00:00Z, until 2026-01-01T00:30:00Z at the latest
can cancel: stops it
cannot retry: it runs
"
    );
    assert_eq!(
        (ended.code, ended.data),
        (0, expected),
        "{}",
        ended.messages
    );
}

#[tokio::test]
async fn orphans_are_listed_with_the_vims_that_could_not_be_queried() {
    let found = json!({"orphans": [{"kind": "Namespace", "id": "i", "name": "vnf-x", "vimId": "v-1"}],
        "notAsked": [{"vim": "cloud", "why": "no answer"}]});
    let stub = Stub::new([("GET /vnfm/v1/orphans", ok(&found))]).await;
    let ended = stub.run(&["orphans"]).await;
    assert_eq!(
        ended.data,
        "KIND       NAME   ID  VIM  VNF  SNAPSHOT  LINK  VOLUME  ABANDONED\nNamespace  vnf-x  i   v-1\n"
    );
    assert_eq!(
        ended.messages,
        "VIM cloud could not be queried: no answer\n"
    );
    let none = Stub::new([(
        "GET /vnfm/v1/orphans",
        ok(&json!({"orphans": [], "notAsked": []})),
    )])
    .await;
    assert_eq!(none.run(&["orphans"]).await.data, "no orphans\n");
}

#[tokio::test]
async fn a_new_password_is_read_from_standard_input() {
    let stub = Stub::new([
        ("GET /vnfm/v1/vims/my%20cloud", ok(&json!({"id": "v-1"}))),
        ("PATCH /vnfm/v1/vims/v%2D1", ok(&json!({"id": "v-1"}))),
        ("PATCH /vnfm/v1/vims/v-1", ok(&json!({"id": "v-1"}))),
    ])
    .await;
    let args = ["vim", "update", "my cloud", "--password-stdin"];
    let ended = stub.run_with(&args, "planted-password\n").await;
    assert_eq!(
        ended.data,
        "updated VIM my cloud; running operations use it from their next call on\n"
    );
    assert_eq!(
        stub.requests()[1].body,
        json!({"password": "planted-password"})
    );
}

#[tokio::test]
async fn a_check_reports_what_expires_and_a_certificate_is_cut_to_one_line() {
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let vim = json!({"id": "v-1", "name": "k", "interfaceInfo": {"endpoint": "https://h", "ssl_ca_cert": pem}});
    let report = json!({"expiresAt": "2036-11-18T12:30:42Z",
        "detail": {"expires": "CA certificate", "version": "v1.36.2"}});
    let stub = Stub::new([
        ("GET /vnfm/v1/vims/k", ok(&vim)),
        ("POST /vnfm/v1/vims/v-1/check", ok(&report)),
    ])
    .await;
    let checked = stub.run(&["vim", "check", "k"]).await;
    let expected =
        "VIM k is reachable: version v1.36.2; CA certificate expires 2036-11-18T12:30:42Z\n";
    assert_eq!(checked.data, expected, "{checked:?}");
    let shown = stub.run(&["vim", "show", "k"]).await;
    let line = r#"{"endpoint":"https://h","ssl_ca_cert":"-----BEGIN CERTIFICATE----- …"}"#;
    assert!(shown.data.contains(line), "{shown:?}");
}

#[test]
fn a_closed_pipe_does_not_crash_the_command() {
    use std::process::{Command, Stdio};
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(
        ended.status.success() && ended.stderr.is_empty(),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_completion_script_is_generated_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = crate::stub::run(&["completion", shell], "").await;
        assert!(
            ended.code == 0 && ended.data.contains("instantiate"),
            "{shell}: {ended:?}"
        );
    }
}
