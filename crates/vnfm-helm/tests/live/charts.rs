//! Helm 3 and Helm 4 render charts of vendors, well-meant and hostile. `VNFM_LIVE_ASSETS` names the folder with `helm` and
//! `helm4`. Without it the tests are skipped with a message, and fail if `VNFM_REQUIRE_LIVE=1`.

use flate2::{Compression, write::GzEncoder};
use std::path::PathBuf;
use std::time::Duration;
use vnfm_helm::{Apply, Cluster, Helm, HelmError, Limits, Release};

/// Both programs, or none with a message.
fn programs() -> Vec<Helm> {
    let Some(folder) = std::env::var_os("VNFM_LIVE_ASSETS").map(PathBuf::from) else {
        let required = std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "VNFM_LIVE_ASSETS names no folder, and VNFM_REQUIRE_LIVE=1 forbids to skip"
        );
        eprintln!("SKIPPED: VNFM_LIVE_ASSETS names no folder with helm");
        return Vec::new();
    };
    ["helm", "helm4"]
        .map(|name| Helm::new(folder.join(name), None))
        .to_vec()
}

/// A packed chart with these files.
fn chart(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let description = ("Chart.yaml", "{apiVersion: v2, name: web, version: 1.0.0}");
    for (path, text) in [description].iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("web/{path}"), text.as_bytes())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

async fn template(helm: &Helm, files: &[(&str, &str)], values: &str) -> Result<String, HelmError> {
    let chart = chart(files);
    let release = Release {
        name: "web",
        namespace: "mine",
        chart: &chart,
        values: values.as_bytes(),
    };
    let cluster = Cluster {
        version: "v1.36.2".into(),
        apis: vec!["example.org/v1".into(), "example.org/v1/Wonder".into()],
    };
    let rendered = helm.template(&release, &cluster).await?;
    Ok(String::from_utf8(rendered).unwrap())
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: {{ .Release.Namespace }}}\ndata: {greeting: {{ .Values.greeting }}}\n";

#[tokio::test]
async fn both_generations_render_a_chart_with_values_and_what_the_cluster_serves() {
    for (helm, version) in programs().iter().zip(["v3.", "v4."]) {
        let message = helm.version().await.unwrap().to_string();
        assert!(message.starts_with(version), "{message}");
        let hook = "{{ if .Capabilities.APIVersions.Has \"example.org/v1/Wonder\" }}\napiVersion: v1\nkind: Pod\nmetadata: {name: before, annotations: {helm.sh/hook: pre-install}}\n{{ end }}";
        let files = [
            ("values.yaml", "greeting: hi"),
            ("templates/map.yaml", MAP),
            ("templates/hook.yaml", hook),
        ];
        let rendered = template(helm, &files, "{\"greeting\": \"hello\"}")
            .await
            .unwrap();
        assert!(
            rendered.contains("data: {greeting: hello}") && rendered.contains("namespace: mine"),
            "{rendered}"
        );
        assert!(
            rendered.contains("name: before"),
            "hooks are rendered, too: {rendered}"
        );
    }
}

#[tokio::test]
async fn crds_are_read_apart_from_the_objects() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: wonders.example.org}\n";
    for helm in programs() {
        let files = [
            ("crds/wonder.yaml", crd),
            ("values.yaml", "greeting: hi"),
            ("templates/map.yaml", MAP),
        ];
        let crds = String::from_utf8(helm.crds(&chart(&files)).await.unwrap()).unwrap();
        assert!(crds.contains("wonders.example.org"), "{crds}");
        assert!(
            !template(&helm, &files, "{}")
                .await
                .unwrap()
                .contains("wonders")
        );
        assert_eq!(
            helm.crds(&chart(&files[1..])).await.unwrap().trim_ascii(),
            b""
        );
    }
}

#[tokio::test]
async fn a_hostile_chart_is_ended_or_gets_nothing() {
    for helm in programs() {
        let mut limits = Limits::default();
        (limits.cpu_seconds, limits.output) = (3, 1 << 20);
        let helm = helm.with_limits(limits);
        let endless = "{{ range until 2000000000 }}{{ range until 2000000000 }}{{ end }}{{ end }}";
        let recursion = "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}";
        let large = "{{ repeat 2000000 \"# a comment\\n\" }}a: 1";
        for hostile in [endless, recursion, large] {
            let failed = template(&helm, &[("templates/a.yaml", hostile)], "{}")
                .await
                .unwrap_err();
            assert!(
                matches!(
                    failed,
                    HelmError::Failed { .. } | HelmError::TooLarge { .. }
                ),
                "{hostile}: {failed}"
            );
            assert!(failed.to_string().len() < 4000);
        }
        let levels = ["bc", "cd", "de", "ef", "fg", "gh", "hi", "ij"];
        let level = |pair: &str| {
            let (from, to) = pair.split_at(1);
            let alias = format!("*{from}");
            format!("{to}: &{to} [{}]\n", vec![alias; 16].join(", "))
        };
        let bomb = format!("b: &b [x, y]\n{}", levels.map(level).concat());
        let files = [
            ("values.yaml", bomb.as_str()),
            ("templates/a.yaml", "{{ toYaml .Values }}"),
        ];
        let failed = template(&helm, &files, "{}").await.unwrap_err();
        assert!(failed.to_string().len() < 4000, "{failed}");
        let reads = "a: {{ .Files.Get \"/etc/passwd\" | quote }}\nb: {{ .Files.Get \"../../../etc/passwd\" | quote }}\nc: {{ getHostByName \"localhost\" | quote }}\n";
        let rendered = template(&helm, &[("templates/a.yaml", reads)], "{}")
            .await
            .unwrap();
        assert!(rendered.contains("a: \"\"\nb: \"\"\nc: \"\""), "{rendered}");
        let schema = "{\"$ref\": \"file:///etc/passwd\"}";
        let files = [
            ("values.schema.json", schema),
            ("values.yaml", "greeting: hi"),
            ("templates/map.yaml", MAP),
        ];
        template(&helm, &files, "{}")
            .await
            .expect("a schema is not read");
    }
}

#[tokio::test]
async fn an_error_of_a_template_is_quoted() {
    for helm in programs() {
        let failed = template(
            &helm,
            &[(
                "templates/a.yaml",
                "{{ required \"give a name\" .Values.name }}",
            )],
            "{}",
        )
        .await;
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("give a name"), "{failed}");
    }
}

/// A cluster at a port where nothing listens.
const NO_CLUSTER: &str = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], \
clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}";

#[tokio::test]
async fn an_error_of_an_installation_does_not_begin_with_warnings_about_our_plugin() {
    for helm in programs() {
        let chart = chart(&[("templates/map.yaml", MAP)]);
        let release = Release {
            name: "web",
            namespace: "mine",
            chart: &chart,
            values: b"{greeting: hello}",
        };
        let apply = Apply {
            kubeconfig: NO_CLUSTER.as_bytes(),
            labels: &[("vnfm.dev/instance", "vnf-1")],
            description: "a test",
            hooks: true,
            time: Duration::from_secs(30),
            render: Box::new(|rendered| Ok(rendered.to_vec())),
        };
        let failed = helm.install(&release, apply).await.unwrap_err().to_string();
        assert!(failed.contains("unreachable"), "{failed}");
        assert!(!failed.contains("plugin"), "{failed}");
    }
}
