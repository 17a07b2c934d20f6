//! Examples of the codes of SOL004: the archive, TOSCA.meta, the manifest, the files.

use super::{A_META, MF, SCRIPT, TOSCA_META, TYPES, VNFD};
use crate::packages::{MANIFEST, WEB};
use crate::{Example, NAMED, same};
use vnfm_lint::codes;

pub(crate) const EXAMPLES: &[Example] = &[
    same(codes::ZIP_DUPLICATE, &[(NAMED, "", TYPES)]),
    same(
        codes::ENTRY,
        &[
            A_META,
            (TOSCA_META, "Entry-Definitions: vnfd.yaml", "§"),
            ("Definitions/vnfd.yaml", "", WEB),
        ],
    ),
    same(
        codes::META,
        &[(TOSCA_META, "", "§\n"), ("Definitions/vnfd.yaml", "", WEB)],
    ),
    same(
        codes::META_KEY,
        &[
            (TOSCA_META, "", "§\nEntry-Definitions: vnfd.yaml\n"),
            ("vnf.mf", "", MANIFEST),
            ("vnf.mf", "§", ""),
        ],
    ),
    same(
        codes::META_FILE,
        &[
            A_META,
            (TOSCA_META, "1.0\n", "1.0\n§\n"),
            ("Licenses/LICENSE", "", "ours"),
        ],
    ),
    same(
        codes::MANIFEST,
        &[(MF, "", MANIFEST), ("Files/x", "", "test")],
    ),
    same(
        codes::MANIFEST_FILE,
        &[(MF, "", MANIFEST), ("Files/install.sh", "", "#!/bin/sh\n")],
    ),
    same(
        codes::PACKAGE_KIND,
        &[(VNFD, "VNF:\n      type: my.nodes.Web", "VNF:\n      §")],
    ),
    same(codes::MANIFEST_NONE, &[(NAMED, "", ""), (VNFD, "", WEB)]),
    same(
        codes::MANIFEST_HASH,
        &[
            (MF, "", MANIFEST),
            (MF, "§", "Source: Files/x\nAlgorithm: SHA-256\n§"),
            ("Files/x", "", "test"),
        ],
    ),
    same(
        codes::MANIFEST_METADATA,
        &[(MF, "", "§\n\nSource: vnfd.yaml\n")],
    ),
    same(
        codes::MANIFEST_DATE,
        &[
            (MF, "", MANIFEST),
            (MF, "§", ""),
            (MF, "vnf_release_date_time: 2026-11-01T10:00:00Z", "§"),
        ],
    ),
    same(
        codes::MANIFEST_DIFFERS,
        &[
            (MF, "", MANIFEST),
            (MF, "§", ""),
            (MF, "vnf_product_name: Web", "§"),
        ],
    ),
    same(
        codes::MANIFEST_LINE,
        &[(MF, "", MANIFEST), ("Definitions/vnfd.yaml", "", TYPES)],
    ),
    same(
        codes::MANIFEST_TWICE,
        &[(MF, "", MANIFEST), ("a.yaml", "", TYPES), A_META],
    ),
    same(
        codes::MANIFEST_HASHES,
        &[
            (MF, "", MANIFEST),
            ("Files/a", "", "test"),
            ("Files/b", "", "3"),
        ],
    ),
    same(
        codes::FILE_UNNAMED,
        &[
            (MF, "", MANIFEST),
            (MF, "§", "Source: vnfd.yaml\n§"),
            SCRIPT,
        ],
    ),
    same(codes::FILE_JUNK, &[(NAMED, "", "")]),
    same(
        codes::SECRET_KEY,
        &[(
            "Scripts/login.sh",
            "",
            "§\nc2FtcGxlIG9mIGEga2V5LCBub3Qgb25lc2FtcGxlIG9mIGEga2V5LCBub3Qgb25l\n",
        )],
    ),
    same(
        codes::SECRET_KUBECONFIG,
        &[("Files/admin.config", "", "§\n")],
    ),
    same(
        codes::SECRET_PASSWORD,
        &[(VNFD, "# more of the topology", "inputs:\n    §")],
    ),
    same(codes::SECRET_TOKEN, &[("Scripts/fetch.sh", "", "§\n")]),
];
