//! `docs/lint.md` is generated from the explanations in `crates/vnfm-lint/explain`. With `VNFM_UPDATE_GENERATED=1` this test
//! regenerates it; otherwise it fails if the page is not current.

use std::fmt::Write as _;
use vnfm_lint::{EXPLANATIONS, Explanation};
use vnfm_tests::sources::assert_page_current;

const HEAD: &str = "# Lint\n\n\
<!-- Generated from the crates by `VNFM_UPDATE_GENERATED=1 cargo test -p vnfm-tests lint`. -->\n\n\
`vnfmctl lint PATH…` reports all errors and warnings of packages: folders, `.csar` and `.zip` files, or single YAML files. \
It needs no server. `-o json` and `-o sarif` are for programs; `--explain CODE` prints the explanations below.\n\n\
| exit code | |\n|---|---|\n| 0 | no findings |\n| 5 | warnings: the package can be onboarded, but check them |\n\
| 6 | errors: onboarding refuses the package |\n\n\
A comment with a reason suppresses a warning on its own line or the next one; `allow-file` applies to the entire file and, in the \
entry file, to findings without a line and to files without comments. Errors cannot be suppressed.\n\n\
```yaml\n# vnfm-lint: allow W-LINK-UNUSED the request attaches machines of another VNF to it\n```\n";

fn rendered() -> String {
    let mut page = HEAD.to_owned();
    for group in EXPLANATIONS.chunk_by(|one, other| one.group == other.group) {
        writeln!(page, "\n## {}", group[0].group).unwrap();
        for Explanation {
            code,
            meaning,
            expected,
            wrong,
            right,
            clause,
            ..
        } in group
        {
            writeln!(page, "\n### {code}\n{meaning}").unwrap();
            writeln!(page, "\n*Expected:* {expected}\n*By:* {clause}.\n").unwrap();
            writeln!(page, "```text\n{wrong}\n```\nFixed:\n```text\n{right}\n```").unwrap();
        }
    }
    page
}

#[test]
fn lint_page_is_current() {
    assert_page_current("docs/lint.md", &rendered());
}
