//! `docs/lint.md` is generated from the codes of findings and their explanations; this test writes it anew with
//! `VNFM_UPDATE_GENERATED=1` and otherwise fails where it is not current.

use std::fmt::Write as _;
use vnfm_descriptor::{CODES, EXPLANATIONS, Explanation};
use vnfm_tests::sources::assert_page_current;

const HEAD: &str = "# Lint\n\n\
<!-- Generated from the crates by `VNFM_UPDATE_GENERATED=1 cargo test -p vnfm-tests lint`. -->\n\n\
`vnfmctl lint PATH…` says everything that is wrong or doubtful in packages: folders, `.csar` and `.zip` files, or single YAML files. \
No server is asked. `-o json` and `-o sarif` are for programs, `--explain CODE` tells what is below.\n\n\
| exit code | |\n|---|---|\n| 0 | nothing to say |\n| 5 | warnings: the package is taken, somebody should look |\n\
| 6 | errors: onboarding refuses the package |\n\n\
A warning is allowed by a comment with a reason, on its line or the one before; `allow-file` holds for the file, and in the entry \
file for what is at no line and for files without comments. Errors cannot be allowed.\n\n\
```yaml\n# vnfm-lint: allow W-LINK-UNUSED the request attaches machines of another VNF to it\n```\n";

fn rendered() -> String {
    let mut page = HEAD.to_owned();
    for (family, explanations) in EXPLANATIONS {
        writeln!(page, "\n## {family}").unwrap();
        for Explanation {
            code,
            expected,
            wrong,
            right,
            clause,
            ..
        } in *explanations
        {
            let meaning = CODES
                .iter()
                .find(|known| known.code == *code)
                .map(|known| known.meaning);
            writeln!(page, "\n### {code}\n{}", meaning.unwrap()).unwrap();
            writeln!(page, "\n*Expected:* {expected}\n*By:* {clause}.\n").unwrap();
            writeln!(
                page,
                "```text\n{wrong}\n```\nMended:\n```text\n{right}\n```"
            )
            .unwrap();
        }
    }
    page
}

#[test]
fn lint_page_is_current() {
    assert_page_current("docs/lint.md", &rendered());
}
