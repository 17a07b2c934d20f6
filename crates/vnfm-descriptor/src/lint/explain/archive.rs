//! What is said of archives, before anything in them is read.

use super::{Explanation, why};
use crate::finding::codes;

const CSAR: &str = "SOL004 4.1 (CSAR structure); TOSCA 1.3 6 (CSAR)";
const OURS: &str = "ours: what a package may cost";

pub(super) const ALL: &[Explanation] = &[
    why(
        codes::ZIP,
        "The package is a folder, or a zip archive whose entries can all be read to their end.",
        "vnf.csar  (a download that broke off)",
        "vnf.csar  (whole: `unzip -t vnf.csar` says so)",
        CSAR,
    ),
    why(
        codes::ZIP_PATH,
        "Names are relative, have `/` between their parts and stay in the package.",
        "../Scripts/install.sh",
        "Scripts/install.sh",
        CSAR,
    ),
    why(
        codes::ZIP_SYMLINK,
        "Entries are files and folders.",
        "Files/image.qcow2 -> /images/image.qcow2",
        "Files/image.qcow2  (the file itself)",
        CSAR,
    ),
    why(
        codes::ZIP_DUPLICATE,
        "A name occurs once, also where case does not count, and is a file or a folder.",
        "Definitions/vnfd.yaml\nDefinitions/VNFD.yaml",
        "Definitions/vnfd.yaml\nDefinitions/types.yaml",
        CSAR,
    ),
    why(
        codes::ZIP_ENCRYPTED,
        "Entries can be read without a password.",
        "zip -e vnf.csar …",
        "zip vnf.csar …",
        CSAR,
    ),
    why(
        codes::ZIP_BOMB,
        "The archive stays within the limits on entries, bytes and density.",
        "a file of 10 kB that becomes 10 GB",
        "a file that is what it seems to be",
        OURS,
    ),
    why(
        codes::IO,
        "The package can be read by who looks at it.",
        "vnfmctl lint no-such.csar",
        "vnfmctl lint vnf.csar",
        "ours: reading what was named",
    ),
];
