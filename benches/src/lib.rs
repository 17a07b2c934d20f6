//! Figures: each with its method, its aim, and whether it holds.
//!
//! ```text
//! figure.rs     what a figure is, the table and the JSON of all
//! programs.rs   the programs as they are released: size, start, memory when idle
//! world.rs      the server and the simulated world as processes, and the way to both
//! http.rs       the facade: creating and reading
//! operations.rs what an operation costs
//! fleet.rs      many instances, many operations in flight
//! lists.rs      lists of 50 000 instances
//! notifications.rs  how far behind the commit subscribers are told
//! plugins.rs    the plugins' border: a call, and a hook with its messages
//! packages.rs   descriptors and packages: cold, wide, large, from the cache
//! huge.rs       a package of 10 GiB
//! size.rs       what operations leave in the file of the database
//! machine.rs    how fast the machine is meanwhile
//! embed.rs      the crate without HTTP: memory, operations in a second
//! ```
//! A new group is a file with one function that returns figures, and a row in [`GROUPS`].

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

/// A group of figures: its name, and how they are taken with the programs in a folder.
pub type Group = (&'static str, fn(&Path) -> anyhow::Result<Vec<Figure>>);

/// Every group, in the order in which they are taken.
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
