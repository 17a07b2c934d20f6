//! A stage of a deployment, before its files are read.

use crate::charts::ChartRelease;
use crate::item::Item;

/// What is deployed at the same time.
#[derive(Default)]
pub(crate) struct Stage {
    /// Paths in the package.
    pub(crate) manifests: Vec<String>,
    /// Objects that no file has.
    pub(crate) objects: Vec<Item>,
    /// Whether the objects are sorted by kind; else they keep the order of the files.
    pub(crate) by_kind: bool,
    /// The charts, each a release.
    pub(crate) charts: Vec<ChartRelease>,
}

impl Stage {
    /// A stage of one chart.
    pub(crate) fn of_chart(chart: ChartRelease) -> Self {
        Self {
            charts: vec![chart],
            ..Self::default()
        }
    }
}
