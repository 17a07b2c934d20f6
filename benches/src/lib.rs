//! Benchmarks: each with its method, its target, and whether the target is met.
//!
//! ```text
//! figure.rs     a benchmark result, and the table of all
//! programs.rs   the released programs: size, startup, memory when idle
//! world.rs      the server and the simulated world as processes, and clients for both
//! http.rs       the HTTP server: creating and reading
//! operations.rs cost of an operation
//! changes.rs    cost of the operations that change an instance, there and back
//! fleet.rs      many instances, many running operations
//! lists.rs      lists of 50 000 instances
//! notifications.rs  delay of notifications after the commit
//! plugins.rs    the plugin interface: a call, and a hook with its messages
//! packages.rs   descriptors and packages: cold, wide, large, from the cache
//! huge.rs       a package of 10 GiB
//! size.rs       growth of the database file by operations
//! machine.rs    speed of the machine during the run
//! embed.rs      the engine without HTTP: memory, operations per second
//! ```
//! A new group is a file with a function that returns results, and a row in [`GROUPS`].

pub mod changes;
pub mod embed;
pub mod figure;
pub mod fleet;
pub mod http;
pub mod huge;
pub mod lists;
pub mod machine;
pub mod notifications;
pub mod operations;
pub mod packages;
pub mod plugins;
pub mod programs;
pub mod size;
pub mod world;

use std::path::Path;

use figure::Figure;

/// A group of benchmarks: its name, and the function that runs it with the programs in a folder.
pub type Group = (&'static str, fn(&Path) -> anyhow::Result<Vec<Figure>>);

/// All groups, in the order of execution.
pub const GROUPS: &[Group] = &[
    ("programs", programs::figures),
    ("http", http::figures),
    ("operations", operations::figures),
    ("fleet", fleet::figures),
    ("lists", lists::figures),
    ("notifications", notifications::figures),
    ("plugins", plugins::figures),
    ("packages", packages::figures),
    ("huge", huge::figures),
    ("size", size::figures),
    ("embed", embed::figures),
];
