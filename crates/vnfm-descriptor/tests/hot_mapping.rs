//! The first version of a parameter mapping, compared with the mappings that the samples have; and environments.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{Cursor, Write};
use std::path::PathBuf;
use vnfm_descriptor::{HotExpression, Limits, PARAMETERS_FILE, Package, draft_mapping};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn sample(name: &str) -> Package {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    Package::open(&samples.join(name), &Limits::default()).unwrap()
}

/// The sample with another mapping or none, and with some text in its templates replaced.
fn with_mapping(sample: &Package, mapping: Option<&str>, replaced: (&str, &str)) -> Package {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |path: &str, text: &str| {
        zip.start_file(path, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    };
    for path in sample.paths().filter(|path| *path != PARAMETERS_FILE) {
        let mut text = String::from_utf8(sample.read(path).unwrap()).unwrap();
        text = text.replace(&format!("Source: {PARAMETERS_FILE}\n"), "");
        if path.starts_with("BaseHOT/") {
            text = text.replace(replaced.0, replaced.1);
        }
        add(path, &text);
    }
    if let Some(mapping) = mapping {
        add(PARAMETERS_FILE, mapping);
    }
    let bytes = zip.finish().unwrap().into_inner();
    Package::from_bytes(bytes, &Limits::default()).unwrap_or_else(|findings| panic!("{findings}"))
}

#[test]
fn a_draft_says_what_the_samples_mappings_say() {
    for (name, flavour) in [
        ("vnf-nested-groups", "simple"),
        ("vnf-a-k8s-cluster-base-hot", "cluster_install"),
        ("vnf-ports", "simple"),
    ] {
        let sample = sample(name);
        let bare = with_mapping(&sample, None, ("", ""));
        let draft = draft_mapping(&bare).unwrap().unwrap();
        let drafted = with_mapping(&sample, Some(&draft), ("", ""));
        let expected = sample.base_hot(flavour).unwrap();
        let found = &drafted.base_hot(flavour).unwrap().parameters.0;
        let open = expected.declared.iter().filter(|one| !one.has_default);
        assert!(open.clone().count() > 2);
        for parameter in open {
            let binding = &expected.parameters.0[&parameter.name];
            let drafted = found.get(&parameter.name).map(|binding| &binding.from);
            assert_eq!(drafted, Some(&binding.from), "{name}:\n{draft}");
        }
        assert_eq!(draft_mapping(&drafted).unwrap(), None, "all are filled");
        assert_eq!(draft_mapping(&sample).unwrap(), None);
    }
}

#[test]
fn guesses_are_marked_and_hostile_names_stay_text() {
    let sample = sample("vnf-nested-groups");
    let hostile = "\"x: {value: 1} # \\n\\u001b[31m\"";
    let renamed = with_mapping(&sample, None, ("door_flavor", hostile));
    let draft = draft_mapping(&renamed).unwrap().unwrap();
    assert!(
        draft.contains("disks: additionalParams.disks   # a guess"),
        "{draft}"
    );
    assert!(draft.contains("nodes: vdu.node.count\n"), "{draft}");
    assert!(!draft.contains('\u{1b}'), "{draft}");
    let drafted = with_mapping(&sample, Some(&draft), ("door_flavor", hostile));
    let parameters = &drafted.base_hot("simple").unwrap().parameters.0;
    let named = &parameters["x: {value: 1} # \n\u{1b}[31m"];
    assert_eq!(named.from, HotExpression::VduFlavor("door".to_owned()));
}

/// The sample with an environment; the findings if it is refused.
fn with_environment(environments: &[(&str, &str)]) -> Result<Package, String> {
    let sample = sample("vnf-nested-groups");
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for path in sample.paths() {
        zip.start_file(path, SimpleFileOptions::default()).unwrap();
        zip.write_all(&sample.read(path).unwrap()).unwrap();
    }
    for (path, text) in environments {
        zip.start_file(*path, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    Package::from_bytes(bytes, &Limits::default()).map_err(|findings| findings.to_string())
}

const ENVIRONMENT: &str = "BaseHOT/simple/store.env";

#[test]
fn an_environment_fills_parameters_and_names_files() {
    let text = "parameters: {door_image: small}
parameter_defaults: {disks: 1}
resource_registry: {'Store::Disk': nested/disk.yaml, 'Store::Node': node.yaml, 'Store::Net': 'OS::Neutron::Net'}
";
    let package = with_environment(&[(ENVIRONMENT, text)]).unwrap();
    let hot = package.base_hot("simple").unwrap();
    let environment = hot.environment.as_ref().unwrap();
    assert_eq!(environment.path, ENVIRONMENT);
    assert_eq!(
        environment.content["resource_registry"]["Store::Node"],
        "node.yaml"
    );
    let filled = hot
        .declared
        .iter()
        .filter(|parameter| parameter.has_default);
    let filled: Vec<&str> = filled.map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(filled, ["door_image", "disks"]);
}

#[test]
fn an_environment_names_no_url_no_missing_file_and_nothing_that_heat_waits_for() {
    let table = [
        ("resource_registry: {A: 'http://x.test/a.yaml'}", "is a URL"),
        ("resource_registry: {A: 'file:///etc/passwd'}", "is a URL"),
        ("resource_registry: {base_url: x}", "is a URL"),
        (
            "resource_registry: {A: ../../../b.yaml}",
            "which the package lacks",
        ),
        (
            "resource_registry: {A: absent.yaml}",
            "which the package lacks",
        ),
        (
            "resource_registry: {resources: {door: {hooks: pre-create}}}",
            "not a file or a type",
        ),
        (
            "event_sinks: [{type: zaqar-queue, target: q}]",
            "has no key `event_sinks`",
        ),
        ("parameters: [1]", "not a mapping"),
    ];
    for (text, reason) in table {
        let findings = with_environment(&[(ENVIRONMENT, text)]).unwrap_err();
        assert!(findings.contains(reason), "{text}: {findings}");
        assert!(
            findings.contains("BaseHOT/simple/store.env:1:"),
            "{findings}"
        );
    }
    let two = [(ENVIRONMENT, "{}"), ("BaseHOT/simple/more.env", "{}")];
    let findings = with_environment(&two).unwrap_err();
    assert!(findings.contains("several environments"), "{findings}");
}

#[test]
fn an_existing_mapping_is_completed() {
    let sample = sample("vnf-nested-groups");
    let partial = with_mapping(&sample, Some("parameters: {nodes: 3}\n"), ("", ""));
    let draft = draft_mapping(&partial).unwrap().unwrap();
    assert!(
        draft.starts_with("# What Files/openstack/parameters.yaml lacks."),
        "{draft}"
    );
    assert!(!draft.contains("nodes:"), "{draft}");
    assert!(draft.contains("  node_image: vdu.node.image\n"), "{draft}");
}

#[test]
fn a_template_that_nests_itself_is_not_followed_for_ever() {
    let sample = sample("vnf-nested-groups");
    let nested = |n: u32| {
        format!("  n{n}: {{type: disk.yaml, properties: {{size: {{get_param: size}}, node: x}}}}")
    };
    let nested = (0..20).map(nested).collect::<Vec<_>>().join("\n");
    let endless = format!("resources:\n{nested}\n  disk:\n");
    let package = with_mapping(&sample, None, ("resources:\n  disk:\n", &endless));
    let disk = package.read("BaseHOT/simple/nested/disk.yaml").unwrap();
    assert!(disk.len() > 1000, "the template was replaced");
    let draft = draft_mapping(&package).unwrap().unwrap();
    assert!(draft.contains("disk_size: storage.disk.size\n"), "{draft}");
}
