//! Every package under `vnfd-samples/broken` is refused, with exactly the findings that it names.

use std::fs;
use std::path::{Path, PathBuf};
use vnfm_descriptor::{Limits, Package};

#[test]
fn broken_packages_are_refused_with_these_findings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/broken");
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(folders.len() >= 12, "only {} broken packages", folders.len());
    let mut wrong = Vec::new();
    for folder in folders {
        let findings = Package::open(&folder, &Limits::default())
            .expect_err(&format!("{} was taken", folder.display()));
        assert!(
            findings.errors().count() > 0,
            "{}: warnings alone refuse nothing",
            folder.display()
        );
        let found = format!("{findings}\n");
        let expected = folder.join("expected.txt");
        if std::env::var_os("VNFM_BLESS").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        let stated = fs::read_to_string(&expected).unwrap_or_default();
        if stated != found {
            wrong.push(format!("{}\n--- stated\n{stated}--- found\n{found}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
