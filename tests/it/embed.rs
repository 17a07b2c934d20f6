//! The embedder's examples are run as their author would run them, each in a program of its own.

use std::path::PathBuf;
use std::process::Command;
use vnfm_tests::sources::root;

/// Lines of an example at most.
const PAGE: usize = 80;
/// The same for `nested`, which embeds the whole API.
const NESTED: usize = 120;

/// What each example says, in part.
const SAYS: &[(&str, &str, &[&str])] = &[
    ("vnfm", "embed", &["the cluster is VIM "]),
    ("vnfm", "own_driver", &["Completed, on the cloud: 1"]),
    (
        "vnfm",
        "own_nfvo",
        &["asked for INSTANTIATE with ", "\nSome(Completed)"],
    ),
    (
        "vnfm",
        "own_hooks",
        &["instantiate_end of ", "Completed, {\"counted\": Number("],
    ),
    ("vnfm", "own_driver_contract", &[" rules hold"]),
    (
        "vnfm",
        "own_store",
        &["an_instance_is_read_as_it_was_written: ", " rules hold"],
    ),
    (
        "vnfm",
        "events",
        &[
            "1 VnfIdentifierCreationNotification",
            "4 VnfLcmOperationOccurrenceNotification COMPLETED\nfrom 4 on:\n5 ",
        ],
    ),
    (
        "vnfm",
        "plan",
        &[
            "INSTANTIATE:\n  STARTING check_vim\n  STARTING prepare\n  PROCESSING allocate\n  PROCESSING register_vims\n",
            "INSTANTIATE would be refused: flavourId `none`",
            "TERMINATE would be refused: VNF instance",
            "PROCESSING release, no way back from here",
            "still Instantiated, nothing runs: true",
        ],
    ),
    (
        "vnfm",
        "one_thread",
        &["dropped in ", "resumed to Completed, 2 VNFCs"],
    ),
    (
        "vnfm-server",
        "nested",
        &[
            "without a login: 401",
            "alice sees 0 instances",
            "alice makes one: 201",
            "bob, of another tenant, sees 0 instances",
            "http://orchestrator.example.com/nfv/vnflcm/v2/vnf_instances/",
        ],
    ),
];

/// The program, in the parent folder of the test programs.
fn built(package: &str, name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let example = program
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples")
        .join(name);
    assert!(
        example.exists(),
        "`{}` is not there: `cargo test --workspace` builds it; alone, \
         `cargo build -p {package} --example {name} --all-features`",
        example.display()
    );
    example
}

#[test]
fn examples_stay_within_their_line_limit() {
    for (package, name, _) in SAYS {
        let file = root().join(format!("crates/{package}/examples/{name}.rs"));
        let lines = std::fs::read_to_string(file).unwrap().lines().count();
        let most = match *name {
            "embed" => 60,
            "nested" => NESTED,
            _ => PAGE,
        };
        assert!(
            lines <= most,
            "`{name}` has {lines} lines, more than the {most} that we promise"
        );
    }
}

#[test]
fn examples_print_the_documented_output() {
    let files =
        ["vnfm", "vnfm-server"].map(|package| root().join(format!("crates/{package}/examples")));
    let count = files
        .iter()
        .map(|folder| std::fs::read_dir(folder).unwrap().count())
        .sum::<usize>();
    assert_eq!(count, SAYS.len(), "an example is not tried here");
    for (package, name, says) in SAYS {
        let output = Command::new(built(package, name)).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stdout}{complaint}");
        for part in *says {
            assert!(
                stdout.contains(part),
                "{name} does not print `{part}`:\n{stdout}"
            );
        }
    }
}
