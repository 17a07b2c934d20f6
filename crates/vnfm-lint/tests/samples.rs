//! The sample packages have no findings, apart from those that their comments allow.

use std::path::Path;
use vnfm_descriptor::Limits;
use vnfm_lint::lint;

#[test]
fn lint_has_no_findings_for_samples() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    for entry in std::fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() || name == "broken" {
            continue;
        }
        let report = lint(&path, &Limits::default());
        let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, [""; 0], "{name}");
        // The seed keeps its original spelling, each request names what to deploy, and bare hosts have no image: their comments
        // allow that.
        let has_allowed = ["vnf-a-seed", "cnf-by-request", "vnf-bare-hosts"].contains(&&*name);
        assert_eq!(report.allowed.is_empty(), !has_allowed, "{name}");
    }
}
