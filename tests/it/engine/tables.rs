//! The table at the top of each operation's file is the table that the runner reads.

use vnfm_core::lcm::OPERATIONS;
use vnfm_tests::sources::root;

#[test]
fn the_table_that_a_reader_sees_is_the_one_that_runs() {
    for operation in OPERATIONS {
        let file = operation.kind.as_str().to_lowercase();
        let path = root().join(format!("crates/vnfm-core/src/lcm/{file}.rs"));
        let text = std::fs::read_to_string(&path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("//! | "));
        let documented: Vec<_> = rows
            .map(|row| row.split('|').map(str::trim).collect::<Vec<_>>())
            .filter(|cells| matches!(cells[1], "STARTING" | "PROCESSING"))
            .map(|cells| (cells[0].to_owned(), cells[1].to_owned(), cells[3] != "—"))
            .collect();
        let real: Vec<_> = operation
            .steps
            .iter()
            .map(|step| {
                let says_so = step.undo.is_some() || step.irreversible;
                (step.name.to_owned(), step.state.as_str().to_owned(), says_so)
            })
            .collect();
        let names = |rows: &[(String, String, bool)]| -> Vec<(String, String)> {
            rows.iter().map(|row| (row.0.clone(), row.1.clone())).collect()
        };
        assert_eq!(names(&documented), names(&real), "{}", path.display());
        for (told, does) in documented.iter().zip(&real) {
            assert!(told.2 || !does.2, "{}: say what undoes `{}`", path.display(), does.0);
        }
    }
}
