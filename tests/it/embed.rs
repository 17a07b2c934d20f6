//! The embedder's example is run as its author would run it: VNF-A in the simulated world, in a program of its own.

use std::process::Command;

#[test]
fn the_example_fits_on_a_page() {
    let file = vnfm_tests::sources::root().join("crates/vnfm/examples/embed.rs");
    let lines = std::fs::read_to_string(file).unwrap().lines().count();
    assert!(lines <= 60, "an embedder reads {lines} lines, more than the 60 that we promise");
}

#[test]
fn the_example_of_an_embedder_makes_a_cluster() {
    // The test program lies in `deps`, examples beside that folder.
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().parent().unwrap();
    let example = folder.join("examples/embed");
    assert!(
        example.exists(),
        "`{}` is not there: `cargo test --workspace` builds it; alone, \
         `cargo build -p vnfm --example embed --features sqlite,openstack,kubernetes,plugins,hosts,sim`",
        example.display()
    );
    let output = Command::new(&example).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    assert!(said.contains("COMPLETED: None"), "{said}");
    assert!(said.contains("the cluster is VIM "), "{said}");
}
