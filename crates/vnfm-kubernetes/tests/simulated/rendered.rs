//! The objects of a descriptor without manifests and charts, compared with those in `rendered.yaml`.

use crate::support::{package_of, sample_of};
use serde_json::{Value, json};
use vnfm_core::ports::Allocation;
use vnfm_kubernetes::render;

const VNFD: &str = include_str!("rendered_vnfd.yaml");
const EXPECTED: &str = include_str!("rendered.yaml");

fn translated(vnfd: &str, params: &Value) -> Allocation {
    package_of((vnfd, Vec::new()), params)
}

fn fingerprint(object: &Value) -> &Value {
    &object["spec"]["template"]["metadata"]["annotations"]["vnfm.dev/configuration"]
}

#[test]
fn node_templates_become_objects() {
    let mut rendered = render(&translated(VNFD, &json!({}))).unwrap().objects;
    for object in rendered
        .iter_mut()
        .filter(|object| object["metadata"]["name"] == "web")
    {
        let note = "/spec/template/metadata/annotations/vnfm.dev~1configuration";
        if let Some(note) = object.pointer_mut(note) {
            *note = "FINGERPRINT".into();
        }
    }
    let expected = EXPECTED.split("\n---\n");
    let expected: Vec<Value> = expected
        .map(|one| serde_yaml::from_str(one).unwrap())
        .collect();
    assert_eq!(rendered.len(), expected.len(), "{rendered:#?}");
    for (rendered, expected) in rendered.iter().zip(&expected) {
        assert_eq!(rendered, expected);
    }
}

#[test]
fn a_request_sets_the_environment_and_replaces_the_pods() {
    let objects = |params: Value| render(&translated(VNFD, &params)).unwrap().objects;
    let (before, after) = (
        objects(json!({})),
        objects(json!({"greeting": "$(x): {y}", "other": 1})),
    );
    assert_eq!(
        after[0]["data"],
        json!({"greeting": "$(x): {y}", "verbose": "true"})
    );
    let web = |objects: &[Value]| {
        let is_web = |object: &&Value| object["kind"] == "Deployment";
        fingerprint(objects.iter().find(is_web).unwrap()).clone()
    };
    assert!(web(&before).is_string() && web(&before) != web(&after));
    let refused = render(&translated(VNFD, &json!({"greeting": ["a"]}))).unwrap_err();
    assert_eq!(refused.name(), "kubernetes.parameter-invalid");
    assert_eq!(refused.resource(), Some("additionalParams.greeting"));
}

#[test]
fn values_of_the_descriptor_stay_values() {
    let hostile = VNFD.replace(
        "'a: {b}'",
        "\"x\\n---\\nkind: Secret\\nlabels: {vnfm.dev/instance: other}\"",
    );
    let objects = render(&translated(&hostile, &json!({}))).unwrap().objects;
    assert!(
        objects.iter().all(|object| object["kind"] != "Secret"),
        "{objects:#?}"
    );
    let greeting = objects[0]["data"]["greeting"].as_str().unwrap();
    assert!(greeting.starts_with("x\n---\nkind: Secret"), "{greeting}");
    let labels = objects
        .iter()
        .filter_map(|object| object["metadata"].get("labels"));
    for labels in labels {
        let names: Vec<&String> = labels.as_object().unwrap().keys().collect();
        assert_eq!(names, ["app.kubernetes.io/name"]);
    }
}

#[test]
fn manifests_are_rendered_with_their_values() {
    let rendered = render(&sample_of("vnf-b-cnf", "instantiate.json")).unwrap();
    let kinds = rendered
        .objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap());
    assert!(kinds.collect::<Vec<_>>().contains(&"Deployment"));
    assert!(
        rendered
            .objects
            .iter()
            .any(|object| object.to_string().contains("hello from VNF-B"))
    );
    assert_eq!(rendered.charts, [""; 0]);
}
