//! The tests of charts, by Helm 3 and Helm 4.

use crate::charts::{helm, list, package, row, worlds};
use serde_json::{Value, json};
use std::path::PathBuf;
use vnfm_core::ports::InfraDriver as _;

/// A test that completes at once, or whose pod finds no node and which fails after two seconds.
const CHECK: &str = "apiVersion: batch/v1
kind: Job
metadata: {name: check, annotations: {helm.sh/hook: test}}
spec:
  backoffLimit: 0
  activeDeadlineSeconds: 2
  template:
    spec:
      restartPolicy: Never
      {{- if .Values.hold }}
      nodeSelector: {no: such}
      {{- end }}
      containers: [{name: check, image: 'localhost/busybox:1'}]
";
const TEMPLATES: &[(&str, &str)] = &[("templates/check.yaml", CHECK)];

/// The phase of the last run of the test, as helm knows it.
fn phase(program: &PathBuf, namespace: &str) -> Option<String> {
    let status = [
        "status",
        "web",
        "--namespace",
        namespace,
        "--output",
        "json",
    ];
    let status: Value = serde_json::from_str(&helm(program, &status)).unwrap();
    let phase = &status["hooks"][0]["last_run"]["phase"];
    phase
        .as_str()
        .filter(|phase| !phase.is_empty())
        .map(str::to_owned)
}

#[tokio::test]
async fn tests_run_on_request_and_their_objects_go_with_the_vnf() {
    for (program, world) in worlds().await {
        let namespace = format!("shared-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        let jobs = world.api("batch/v1", "Job", "jobs", Some(&namespace));
        let plain = package(TEMPLATES, &json!({"namespace": namespace}));
        let created = world.instantiate(&plain, 60).await.unwrap();
        assert!(
            jobs.get_opt("check").await.unwrap().is_none(),
            "nobody asked for it"
        );
        let params = json!({"namespace": namespace, "helm_test": true});
        let tested = package(TEMPLATES, &params);
        world.driver.validate_request(&tested).unwrap();
        world.instantiate(&tested, 60).await.unwrap();
        assert_eq!(phase(&program, &namespace).as_deref(), Some("Succeeded"));
        assert_eq!(list(&program, &namespace), [row("web", "1", "deployed")]);
        let job = jobs.get("check").await.unwrap();
        let labels = job.metadata.labels.unwrap();
        assert_eq!(labels["vnfm.dev/instance"], world.owner.instance_id);
        world.terminate(&tested, created.handle).await.unwrap();
        world.assert_nothing_left().await;
        assert!(jobs.get_opt("check").await.unwrap().is_none());
        world.clean(&world.namespaces(), &namespace).await;
    }
}

#[tokio::test]
async fn a_failing_test_fails_the_step_and_leaves_nothing_behind() {
    for (program, world) in worlds().await {
        let namespace = format!("shared-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        let params = json!({"namespace": namespace, "helm_test": "true", "hold": true});
        let what = package(TEMPLATES, &params);
        let failed = world.instantiate(&what, 60).await.unwrap_err();
        assert_eq!(failed.name(), "kubernetes.test-failed", "{failed}");
        assert!(failed.to_string().contains("release `web`"), "{failed}");
        assert_eq!(list(&program, &namespace), [row("web", "1", "deployed")]);
        world.terminate(&what, Value::Null).await.unwrap();
        world.assert_nothing_left().await;
        let jobs = world.api("batch/v1", "Job", "jobs", Some(&namespace));
        assert!(jobs.get_opt("check").await.unwrap().is_none());
        world.clean(&world.namespaces(), &namespace).await;
    }
}

#[tokio::test]
async fn another_value_than_a_boolean_is_refused_by_name() {
    for (_, world) in worlds().await {
        let what = package(TEMPLATES, &json!({"helm_test": 1}));
        let refused = world.driver.validate_request(&what).unwrap_err();
        assert_eq!(refused.resource(), Some("additionalParams.helm_test"));
    }
}
