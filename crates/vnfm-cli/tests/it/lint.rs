//! `vnfmctl lint`, `new vnfd`, `package show` and `graph`: their output and exit codes.

use crate::stub::{Ended, Stub, file, ok, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use vnfm_descriptor::{Limits, Package};

fn sample(name: &str) -> String {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    samples
        .join(name)
        .canonicalize()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

async fn lint(args: &[&str]) -> Ended {
    run(&[&["lint"][..], args].concat(), "").await
}

async fn json(args: &[&str]) -> Value {
    serde_json::from_str(&lint(args).await.data).unwrap()
}

#[tokio::test]
async fn a_finding_is_shown_with_its_line_and_what_was_expected() {
    let path = sample("broken/unused-link");
    let ended = lint(&[&path]).await;
    let expected = format!(
        "\
warning[W-LINK-UNUSED]: no connection point is on link `net`
  --> {path}/vnfd.yaml:41:5
   |
41 |     net:
   |     ^^^
   |
   = expected: Each virtual link has a connection point.
   = clause: SOL001 6.8 (node types)
"
    );
    assert_eq!(ended.data, expected);
    let expected = format!(
        "{path}: 1 finding suppressed by comments (see -o json)\nwarning: lint found 1 warning\n\
         hint: `vnfmctl lint --explain CODE` explains a code\n"
    );
    assert_eq!((ended.code, ended.messages), (5, expected));
}

#[tokio::test]
async fn the_most_severe_finding_decides_the_exit_code() {
    let (clean, incomplete, wrong) = (
        sample("vnf-b-cnf"),
        sample("broken/no-manifest"),
        sample("broken/unknown-node"),
    );
    let ended = lint(&[&clean]).await;
    assert_eq!(
        (ended.code, ended.data.as_str(), ended.messages.as_str()),
        (0, "", "")
    );
    assert_eq!(lint(&[&clean, &incomplete]).await.code, 5);
    let ended = lint(&[&incomplete, &clean, &wrong]).await;
    assert_eq!(ended.code, 6);
    assert!(
        ended.messages.contains("1 error and 1 warning"),
        "{ended:?}"
    );
    assert_eq!(lint(&["no/such/package.csar"]).await.code, 6);
}

#[tokio::test]
async fn json_has_all_members_of_a_finding() {
    let all = json(&["-o", "json", &sample("broken/unknown-node")]).await;
    let finding = &all[0]["findings"][0];
    assert_eq!(finding["code"], "E-NODE-UNKNOWN");
    assert_eq!(
        (&finding["file"], &finding["line"]),
        (&"vnfd.yaml".into(), &40.into())
    );
    assert_eq!(finding["source"], "        - virtual_binding: nod");
    assert_eq!(finding["hint"], "did you mean `node`?");
    for member in ["severity", "column", "message", "expected", "clause"] {
        assert!(!finding[member].is_null(), "{member}: {finding:#}");
    }
    assert_eq!(
        all[0]["allowed"][0]["reason"],
        "the sample shows another mistake"
    );
}

/// A JSON pointer into the log, and a check of the value there.
type Fact = (&'static str, fn(&Value) -> bool);

/// What SARIF 2.1.0 requires of the output.
const SARIF: &[Fact] = &[
    ("/version", |value| value == "2.1.0"),
    ("/$schema", Value::is_string),
    ("/runs/0/tool/driver/name", Value::is_string),
    ("/runs/0/tool/driver/rules", Value::is_array),
    ("/runs/0/results", Value::is_array),
    ("/runs/0/columnKind", |value| {
        value == "unicodeCodePoints" || value == "utf16CodeUnits"
    }),
];

/// Checks a result against SARIF 2.1.0.
fn assert_sarif_result(result: &Value, rules: &[Value]) {
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(rules[index]["id"], result["ruleId"]);
    assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
    assert!(result["message"]["text"].is_string());
    for location in result["locations"].as_array().unwrap() {
        let physical = &location["physicalLocation"];
        let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.contains([' ', '\\', '#']), "{uri}");
        if let Some(region) = physical.get("region") {
            assert!(region["startLine"].as_u64().unwrap() >= 1, "{region}");
            assert!(region["startColumn"].as_u64().unwrap() >= 1, "{region}");
        }
    }
    for suppression in result["suppressions"].as_array().into_iter().flatten() {
        assert!(["inSource", "external"].contains(&suppression["kind"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn sarif_output_conforms_to_the_standard() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("my package.csar");
    let bytes = vnfm_descriptor::pack(
        sample("broken/unknown-node").as_ref(),
        &vnfm_descriptor::Limits::default(),
    );
    std::fs::write(&packed, bytes.unwrap()).unwrap();
    let args = [
        "-o",
        "sarif",
        &sample("broken/unused-link"),
        packed.to_str().unwrap(),
        &sample("vnf-a-seed"),
    ];
    let log = json(&args).await;
    for (pointer, holds) in SARIF {
        assert!(log.pointer(pointer).is_some_and(holds), "{pointer}");
    }
    let rules = log["runs"][0]["tool"]["driver"]["rules"]
        .as_array()
        .unwrap();
    for rule in rules {
        assert!(
            rule["id"].is_string() && rule["shortDescription"]["text"].is_string(),
            "{rule}"
        );
        assert!(rule["help"]["text"].is_string(), "{rule}");
    }
    let results = log["runs"][0]["results"].as_array().unwrap();
    for result in results {
        assert_sarif_result(result, rules);
    }
    let suppressed = results
        .iter()
        .filter(|result| result.get("suppressions").is_some())
        .count();
    assert!(
        suppressed > 0 && suppressed < results.len(),
        "{suppressed} of {}",
        results.len()
    );
    let inside = results
        .iter()
        .find(|result| result["ruleId"] == "E-NODE-UNKNOWN")
        .unwrap();
    let location = &inside["locations"][0];
    let name = location["logicalLocations"][0]["fullyQualifiedName"]
        .as_str()
        .unwrap();
    assert!(name.starts_with("vnfd.yaml:40:"), "{name}");
    assert!(
        location["physicalLocation"]["artifactLocation"]["uri"]
            .as_str()
            .unwrap()
            .ends_with("my%20package.csar")
    );
}

#[tokio::test]
async fn only_lint_writes_sarif() {
    let ended = run(&["-o", "sarif", "completion", "bash"], "").await;
    assert_eq!(
        (ended.code, ended.messages.as_str()),
        (1, "error: only `vnfmctl lint` writes SARIF\n")
    );
}

#[tokio::test]
async fn explain_describes_a_code_and_rejects_an_unknown_one() {
    let ended = lint(&["--explain", "w-cp-link"]).await;
    for part in ["W-CP-LINK", "Expected:", "Wrong:", "Right:", "SOL001"] {
        assert!(ended.data.contains(part), "{ended:?}");
    }
    let ended = lint(&["--explain", "W-NOTHING"]).await;
    assert_eq!(ended.code, 1);
    assert!(
        ended.messages.contains("unknown lint code `W-NOTHING`"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn secrets_are_found_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vnfd.yaml");
    // `run` looks for this word in everything that is printed.
    let vnfd = "tosca_definitions_version: tosca_simple_yaml_1_3\n\
                dsl_definitions: {password: 'planted', version: 1.10}\n";
    std::fs::write(&file, vnfd).unwrap();
    for format in ["text", "json", "sarif"] {
        let ended = lint(&["-o", format, folder.path().to_str().unwrap()]).await;
        assert!(ended.data.contains("W-SECRET-PASSWORD"), "{ended:?}");
        assert!(
            ended.data.contains("W-YAML-NUMBER"),
            "on the same line: {ended:?}"
        );
    }
}

#[tokio::test]
async fn a_single_file_is_checked_alone_or_with_its_package() {
    let vnfd = PathBuf::from(sample("vnf-b-cnf")).join("Definitions/vnf-b.yaml");
    assert_eq!(
        lint(&[vnfd.to_str().unwrap()]).await.code,
        0,
        "its package has the rest"
    );
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let manifest = write(
        "pod.yaml",
        "apiVersion: v1\nkind: Pd\nmetadata: {name: a}\n",
    );
    let ended = lint(&[&manifest]).await;
    assert!(
        ended.code == 5 && ended.data.contains("W-K8S-KIND"),
        "{ended:?}"
    );
    let hot = write(
        "hot.yaml",
        "heat_template_version: 2018-08-31\nresource: {}\n",
    );
    let ended = lint(&[&hot]).await;
    assert!(
        ended.code == 5 && ended.data.contains("W-HOT-KEY"),
        "{ended:?}"
    );
    let types = "tosca_definitions_version: tosca_simple_yaml_1_3\nimports: [more.yaml]\n\
                 node_types:\n  A: {derived_from: B, versoin: 1}\n";
    let more = "tosca_definitions_version: tosca_simple_yaml_1_3\n\
                node_types: {B: {derived_from: tosca.nodes.Root}}\n";
    write("more.yaml", more);
    let ended = lint(&[&write("types.yaml", types)]).await;
    assert!(
        ended.code == 5 && ended.data.contains("W-KEY-UNUSED"),
        "{ended:?}"
    );
    assert_eq!(ended.data.matches("warning[").count(), 1, "{ended:?}");
}

#[tokio::test]
async fn a_new_package_is_clean_and_can_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["vm", "cnf"] {
        let path = folder.path().join(kind);
        let path = path.to_str().unwrap();
        let args = ["new", "vnfd", "web-server", "--kind", kind, "--dir", path];
        let made = run(&args, "").await;
        assert_eq!(made.code, 0, "{made:?}");
        let ended = lint(&[path]).await;
        assert_eq!(
            (ended.code, ended.data.as_str(), ended.messages.as_str()),
            (0, "", ""),
            "{kind}"
        );
        let again = run(&args, "").await;
        assert!(
            again.code == 1 && again.messages.contains("already exists"),
            "{again:?}"
        );
        let shown = run(&["package", "show", path], "").await;
        assert!(
            shown.data.contains("DEPLOYMENT FLAVOUR simple"),
            "{shown:?}"
        );
        let drawn = run(&["package", "graph", path], "").await;
        assert!(drawn.data.starts_with("flowchart LR\n"), "{drawn:?}");
    }
    let ended = run(&["new", "vnfd", "Web_Server"], "").await;
    assert!(
        ended.code == 1
            && ended
                .messages
                .contains("hint: use at most 40 lowercase letters"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_package_is_shown_with_its_flavours_hooks_and_parameters() {
    let shown = run(&["package", "show", &sample("vnf-a-k8s-cluster")], "").await;
    for part in [
        "product       Kubernetes cluster",
        "small  yes      masterNode 1, workerNode 2  workers 0     Two workers",
        "masterNode  VM    1 to 1     1     512 MiB  1 GiB          nfv-image",
        "instantiate_end               kubernetes-cluster  plugin kubernetes-cluster  1800 s",
        "k8s_cluster_installation_param.master_node.password",
        "string, secret",
    ] {
        assert!(shown.data.contains(part), "no `{part}` in\n{}", shown.data);
    }
    let drawn = run(&["package", "graph", &sample("vnf-a-k8s-cluster")], "").await;
    for part in [
        "f0_v1[\"workerNode ×1…6\"]",
        "f0_c3 --- f0_l0",
        "f0_c2 --- outside",
    ] {
        assert!(drawn.data.contains(part), "no `{part}` in\n{}", drawn.data);
    }
    let refused = run(&["package", "show", &sample("broken/unknown-node")], "").await;
    assert!(
        refused.code == 1 && refused.messages.contains("E-NODE-UNKNOWN"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn charts_and_deployment_items_are_shown() {
    let shown = run(&["package", "show", &sample("cnf-chart")], "").await;
    for part in [
        "httpd      localhost/busybox:1  web       16 MiB to 64 MiB",
        "chart  web   web 1.0.0, application 1  Artifacts/Charts/web-1.0.0.tgz",
    ] {
        assert!(shown.data.contains(part), "no `{part}` in\n{}", shown.data);
    }
    let shown = run(&["-o", "json", "package", "show", &sample("cnf-chart")], "").await;
    let shown: Value = serde_json::from_str(&shown.data).unwrap();
    assert_eq!(
        shown["charts"]["Artifacts/Charts/web-1.0.0.tgz"]["version"],
        "1.0.0"
    );
    let drawn = run(&["package", "graph", &sample("cnf-chart")], "").await;
    for part in ["f0_m0[[\"chart\"]]", "f0_m0 --- f0_v0"] {
        assert!(drawn.data.contains(part), "no `{part}` in\n{}", drawn.data);
    }
    let shown = run(&["package", "show", &sample("asd-web")], "").await;
    assert!(shown.data.contains("Deployment items"), "{}", shown.data);
}

/// The record of an onboarded package, and its archive.
fn onboarded(name: &str) -> (Value, Vec<u8>) {
    let bytes = vnfm_descriptor::pack(Path::new(&sample(name)), &Limits::default()).unwrap();
    let package = Package::from_bytes(bytes.clone(), &Limits::default()).unwrap();
    let record = serde_json::json!({
        "id": "p1", "vnfdId": package.vnfd().descriptor_id, "onboardingState": "ONBOARDED",
        "checksum": {"algorithm": "SHA-256", "hash": package.sha256()},
    });
    (record, bytes)
}

#[tokio::test]
async fn an_onboarded_package_is_shown_with_its_contents() {
    let (record, bytes) = onboarded("vnf-a-k8s-cluster");
    let stub = Stub::new([
        ("GET /vnfpkgm/v2/vnf_packages/p1", ok(&record)),
        (
            "GET /vnfpkgm/v2/vnf_packages/p1/package_content",
            file(bytes),
        ),
    ])
    .await;
    let shown = stub.run(&["package", "show", "p1"]).await;
    for part in [
        "state    ",
        "ONBOARDED",
        "small  yes      masterNode 1, workerNode 2",
    ] {
        assert!(shown.data.contains(part), "no `{part}` in\n{}", shown.data);
    }
    let shown = stub.run(&["-o", "json", "package", "show", "p1"]).await;
    let shown: Value = serde_json::from_str(&shown.data).unwrap();
    assert_eq!(shown["onboardingState"], "ONBOARDED");
    assert_eq!(
        shown["described"]["flavours"]["cluster_install"]["id"],
        "cluster_install"
    );
}

#[tokio::test]
async fn a_package_whose_content_is_unavailable_or_wrong_is_shown_without_it() {
    let (mut record, bytes) = onboarded("vnf-b-cnf");
    let path = "GET /vnfpkgm/v2/vnf_packages/p1";
    let stub = Stub::new([(path, ok(&record))]).await;
    let shown = stub.run(&["package", "show", "p1"]).await;
    assert_eq!(shown.code, 0, "the record is shown: {shown:?}");
    assert!(
        shown
            .messages
            .contains("cannot show the contents of the package"),
        "{shown:?}"
    );

    record["checksum"]["hash"] = "00".into();
    let content = "GET /vnfpkgm/v2/vnf_packages/p1/package_content";
    let stub = Stub::new([(path, ok(&record)), (content, file(bytes))]).await;
    let shown = stub.run(&["package", "show", "p1"]).await;
    assert!(
        shown.code == 1 && shown.messages.contains("has SHA-256 00"),
        "{shown:?}"
    );

    record["onboardingState"] = "CREATED".into();
    let stub = Stub::new([(path, ok(&record))]).await;
    let shown = stub.run(&["package", "show", "p1"]).await;
    assert!(
        shown.code == 0 && shown.messages.is_empty(),
        "there is nothing to fetch: {shown:?}"
    );
}
