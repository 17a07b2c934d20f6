//! `docs/errors.md` is generated from the codes in the crates. With `VNFM_UPDATE_GENERATED=1` this test regenerates it;
//! otherwise it fails if the page is not current.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use vnfm_core::ports::{Code, ErrorKind};
use vnfm_tests::sources::{assert_page_current, files};

/// Every code of every crate, with the crate.
fn all() -> Vec<(&'static str, &'static Code)> {
    let with_crate =
        |name: &'static str, codes: Vec<&'static Code>| codes.into_iter().map(move |c| (name, c));
    with_crate("vnfm-core", vnfm_core::codes())
        .chain(with_crate("vnfm-memory", vnfm_memory::CODES.to_vec()))
        .chain(with_crate("vnfm-store", vnfm_store::PACKAGE_CODES.to_vec()))
        .chain(with_crate("vnfm-store", vnfm_store::FILE_CODES.to_vec()))
        .chain(with_crate("vnfm-openstack", vnfm_openstack::CODES.to_vec()))
        .chain(with_crate(
            "vnfm-kubernetes",
            vnfm_kubernetes::errors::CODES.to_vec(),
        ))
        .chain(with_crate("vnfm-hosts", vnfm_hosts::CODES.to_vec()))
        .chain(with_crate("vnfm-nfvo", vnfm_nfvo::codes()))
        .chain(with_crate("vnfm-ssh", vnfm_ssh::CODES.to_vec()))
        .chain(with_crate("vnfm-plugin-host", vnfm_plugin_host::codes()))
        .chain(with_crate("vnfm", vnfm::HOSTS_CODES.to_vec()))
        .collect()
}

fn rendered() -> String {
    let mut page = String::from(
        "# Errors\n\n<!-- Generated from the crates by `VNFM_UPDATE_GENERATED=1 cargo test -p vnfm-tests errors`. -->\n\n\
         A code is in `code` and in the `type` fragment of every ProblemDetails. *Again* is `yes` if the same \
         request may succeed later without any change.\n\n## Operations and requests\n\n\
         | code | again | means | next | from |\n|---|---|---|---|---|\n",
    );
    let sorted: BTreeMap<_, _> = all()
        .into_iter()
        .map(|(from, code)| (code.name, (from, code)))
        .collect();
    for (name, (from, code)) in sorted {
        let again = match code.kind {
            ErrorKind::Unavailable => "yes",
            ErrorKind::Refused => "no",
            _ => "no, a bug",
        };
        writeln!(
            page,
            "| `{name}` | {again} | {} | {} | `{from}` |",
            code.means, code.next
        )
        .unwrap();
    }
    page.push_str("\n## The facade\n\n| code | means | next |\n|---|---|---|\n");
    for (name, means, next) in vnfm_server::reference::CODES {
        writeln!(page, "| `{name}` | {means} | {next} |").unwrap();
    }
    page.push_str("\n## Findings in packages\n\n| code | means |\n|---|---|\n");
    for known in vnfm_lint::EXPLANATIONS {
        writeln!(page, "| `{}` | {} |", known.code, known.meaning).unwrap();
    }
    page
}

#[test]
fn errors_page_is_current() {
    assert_page_current("docs/errors.md", &rendered());
}

/// What authors of plugins and scripts read: code, who says it, what it means, what next.
fn of_authors() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let host = vnfm_plugin_host::codes().into_iter();
    let core = vnfm_core::codes().into_iter().filter(|code| {
        ["hook.", "plugin."]
            .iter()
            .any(|begin| code.name.starts_with(begin))
    });
    let codes = host
        .map(|code| (code, "the plugin host"))
        .chain(core.map(|c| (c, "the engine")));
    let sdk = vnfm_plugin_sdk::MEANINGS.iter().map(|row| (row, "the SDK"));
    let script = mgmt_script::MEANINGS
        .iter()
        .map(|row| (row, "`mgmt-script`"));
    codes
        .map(|(code, from)| (code.name, from, code.means, code.next))
        .chain(
            sdk.chain(script)
                .map(|(row, from)| (row.code, from, row.means, row.next)),
        )
        .collect()
}

/// Where authors' errors are tried.
const TRIED_IN: &[&str] = &[
    "crates/vnfm-plugin-host/tests",
    "crates/vnfm-plugin-sdk/tests",
    "crates/vnfm-core/src",
    "plugins/script/src",
    "plugins/template/src",
    "tests/it",
];

/// The test that expects each of these codes: its file and its name.
fn tests_of(codes: &BTreeSet<&str>) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for source in files(TRIED_IN, ".rs").unwrap() {
        let (mut is_test, mut test) = (false, None);
        // Codes in a table before the test that reads it.
        let mut pending = Vec::new();
        for line in source.text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, name)) = line.split_once("fn ").filter(|(before, _)| {
                ["", "async ", "pub(crate) ", "pub ", "const "].contains(before)
            }) {
                let name = name.split('(').next().unwrap().to_owned();
                test = std::mem::take(&mut is_test).then_some(name);
            } else {
                let quoted = line.split('"').skip(1).step_by(2);
                pending.extend(quoted.filter(|code| codes.contains(code)));
            }
            if let Some(test) = &test {
                for code in pending.drain(..) {
                    let citation = (source.path.clone(), test.clone());
                    found.entry(code.to_owned()).or_insert(citation);
                }
            }
        }
    }
    found
}

#[test]
fn plugin_errors_page_is_current_and_every_code_has_a_test() {
    let rows = of_authors();
    let tests = tests_of(&rows.iter().map(|row| row.0).collect());
    let mut page = String::from(
        "# Errors for plugin authors\n\n\
         <!-- Generated from the crates by `VNFM_UPDATE_GENERATED=1 cargo test -p vnfm-tests errors`. -->\n\n\
         A failed hook ends its operation in FAILED_TEMP with one of these codes, or with its own, in `code`. The \
         `detail` names the wrong member, file, symbol or version, and the expected one. The test in each row expects \
         that code. All errors: [errors](errors.md).\n\n\
         | code | from | means | next | test |\n|---|---|---|---|---|\n",
    );
    let mut untried = Vec::new();
    for (code, from, means, next) in rows {
        let Some((file, test)) = tests.get(code) else {
            untried.push(code);
            continue;
        };
        writeln!(
            page,
            "| `{code}` | {from} | {means} | {next} | [`{test}`](../{file}) |"
        )
        .unwrap();
    }
    assert!(untried.is_empty(), "no test expects {untried:?}");
    assert_page_current("docs/plugin-errors.md", &page);
}

#[test]
fn error_codes_are_unique() {
    let mut seen: BTreeMap<&str, &Code> = BTreeMap::new();
    for (from, code) in all() {
        let before = seen.insert(code.name, code);
        assert!(
            before.is_none_or(|before| before == code),
            "`{}` of {from} means two things",
            code.name
        );
    }
}

#[test]
fn server_error_codes_are_documented() {
    let known: BTreeSet<_> = vnfm_server::reference::CODES
        .iter()
        .map(|row| row.0)
        .collect();
    let sources = files(&["crates/vnfm-server/src"], ".rs").unwrap();
    for source in &sources {
        for word in source.text.split('"').skip(1).step_by(2) {
            let is_code = ["request.", "package.", "server."]
                .iter()
                .any(|p| word.starts_with(p));
            if is_code
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b".-".contains(&b))
            {
                assert!(
                    known.contains(word),
                    "{}: `{word}` is in no table",
                    source.path
                );
            }
        }
    }
}
