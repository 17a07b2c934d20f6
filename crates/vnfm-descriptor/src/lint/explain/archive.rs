//! Explanations of the codes for archives.

use super::{Explanation, explained};
use crate::finding::codes;

const CSAR: &str = "SOL004 4.1 (CSAR structure); TOSCA 1.3 6 (CSAR)";
const OURS: &str = "ours: limits on packages";

pub(super) const ALL: &[Explanation] = &[
    explained(
        codes::ZIP,
        "The package is a folder, or an undamaged zip archive.",
        "vnf.csar  (an interrupted download)",
        "vnf.csar  (complete: `unzip -t vnf.csar` finds no errors)",
        CSAR,
    ),
    explained(
        codes::ZIP_PATH,
        "Names are relative, use `/` as separator, and stay in the package.",
        "../Scripts/install.sh",
        "Scripts/install.sh",
        CSAR,
    ),
    explained(
        codes::ZIP_SYMLINK,
        "Entries are regular files and folders.",
        "Files/image.qcow2 -> /images/image.qcow2",
        "Files/image.qcow2  (the file itself)",
        CSAR,
    ),
    explained(
        codes::ZIP_DUPLICATE,
        "Each name occurs once, even when case is ignored, and is either a file or a folder.",
        "Definitions/vnfd.yaml\nDefinitions/VNFD.yaml",
        "Definitions/vnfd.yaml\nDefinitions/types.yaml",
        CSAR,
    ),
    explained(
        codes::ZIP_ENCRYPTED,
        "Entries are readable without a password.",
        "zip -e vnf.csar …",
        "zip vnf.csar …",
        CSAR,
    ),
    explained(
        codes::ZIP_BOMB,
        "The archive stays within the limits on entries, bytes and compression ratio.",
        "a file of 10 kB that unpacks to 10 GB",
        "a file of 10 MB that unpacks to 30 MB",
        OURS,
    ),
    explained(
        codes::IO,
        "The package exists, and the user who runs the command may read it.",
        "vnfmctl lint no-such.csar",
        "vnfmctl lint vnf.csar",
        "ours: reading the given path",
    ),
];
