//! `docs/errors.md` is generated from the codes in the crates; this test writes it anew with
//! `VNFM_UPDATE_GENERATED=1` and otherwise fails where it is not current.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use vnfm_core::ports::{Code, ErrorKind};
use vnfm_tests::sources::{files, page_is_current};

/// Every code of every crate, with the crate.
fn all() -> Vec<(&'static str, &'static Code)> {
    let of =
        |name: &'static str, codes: Vec<&'static Code>| codes.into_iter().map(move |c| (name, c));
    of("vnfm-core", vnfm_core::codes())
        .chain(of("vnfm-memory", vnfm_memory::CODES.to_vec()))
        .chain(of("vnfm-store", vnfm_store::PACKAGE_CODES.to_vec()))
        .chain(of("vnfm-openstack", vnfm_openstack::CODES.to_vec()))
        .chain(of("vnfm-kubernetes", vnfm_kubernetes::errors::CODES.to_vec()))
        .chain(of("vnfm-nfvo", vnfm_nfvo::codes()))
        .chain(of("vnfm-ssh", vnfm_ssh::CODES.to_vec()))
        .chain(of("vnfm-plugin-host", vnfm_plugin_host::codes()))
        .chain(of("vnfm", vnfm::HOSTS_CODES.to_vec()))
        .collect()
}

fn rendered() -> String {
    let mut page = String::from(
        "# Errors\n\n<!-- Generated from the crates by `VNFM_UPDATE_GENERATED=1 cargo test -p vnfm-tests errors`. -->\n\n\
         A code is in `code` and in the fragment of `type` of every ProblemDetails. *Again* says whether the same \
         request may work later without anybody changing anything.\n\n## Operations and requests\n\n\
         | code | again | means | next | from |\n|---|---|---|---|---|\n",
    );
    let sorted: BTreeMap<_, _> =
        all().into_iter().map(|(from, code)| (code.name, (from, code))).collect();
    for (name, (from, code)) in sorted {
        let again = match code.kind {
            ErrorKind::Unavailable => "yes",
            ErrorKind::Refused => "no",
            _ => "no, a bug",
        };
        writeln!(page, "| `{name}` | {again} | {} | {} | `{from}` |", code.means, code.next)
            .unwrap();
    }
    page.push_str("\n## The facade\n\n| code | means | next |\n|---|---|---|\n");
    for (name, means, next) in vnfm_server::problem::CODES {
        writeln!(page, "| `{name}` | {means} | {next} |").unwrap();
    }
    page.push_str("\n## Findings in packages\n\n| code | means |\n|---|---|\n");
    for code in vnfm_descriptor::CODES {
        writeln!(page, "| `{}` | {} |", code.code, code.meaning).unwrap();
    }
    page
}

#[test]
fn the_page_of_errors_is_current() {
    page_is_current("docs/errors.md", &rendered());
}

#[test]
fn a_code_has_one_meaning() {
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
fn every_code_that_the_facade_gives_is_in_its_table() {
    let known: BTreeSet<_> = vnfm_server::problem::CODES.iter().map(|row| row.0).collect();
    let sources = files(&["crates/vnfm-server/src"], ".rs").unwrap();
    for source in &sources {
        for word in source.text.split('"').skip(1).step_by(2) {
            let is_code = ["request.", "package.", "server."].iter().any(|p| word.starts_with(p));
            if is_code && word.bytes().all(|b| b.is_ascii_lowercase() || b".-".contains(&b)) {
                assert!(known.contains(word), "{}: `{word}` is in no table", source.path);
            }
        }
    }
}
