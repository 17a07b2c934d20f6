//! Explanations of the codes for SOL004's own files, and for secrets.

use super::{Explanation, explained};
use crate::finding::codes;

const STRUCTURE: &str = "SOL004 4.1 (CSAR structure)";
const MANIFEST: &str = "SOL004 4.3 (manifest file)";
const SECURITY: &str = "SOL004 5 (package security)";
const SECRETS: &str = "ours: everyone who runs the VNF gets a copy of the package";

pub(super) const ALL: &[Explanation] = &[
    explained(
        codes::ENTRY,
        "`Entry-Definitions` names the descriptor; without TOSCA.meta, it is the only YAML file at the root.",
        "Entry-Definitions: Definitions/vnfd.yml",
        "Entry-Definitions: Definitions/vnfd.yaml",
        STRUCTURE,
    ),
    explained(
        codes::META,
        "TOSCA.meta consists of `Key: value` lines, one of them `Entry-Definitions`.",
        "CSAR-Version: 1.1",
        "CSAR-Version: 1.1\nEntry-Definitions: Definitions/vnfd.yaml",
        STRUCTURE,
    ),
    explained(
        codes::META_KEY,
        "The first block states the versions and the author, with keys that SOL004 defines.",
        "CSAR-Version: 1.1\nETSI-Entry-Manifset: vnf.mf",
        "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nETSI-Entry-Manifest: vnf.mf",
        STRUCTURE,
    ),
    explained(
        codes::META_FILE,
        "The change log, licenses, tests and certificate exist at the paths that TOSCA.meta states.",
        "ETSI-Entry-Licenses: Licences",
        "ETSI-Entry-Licenses: Licenses",
        STRUCTURE,
    ),
    explained(
        codes::MANIFEST,
        "The manifest names files of the package, each with both algorithm and hash or neither, and external artifacts by an http or https URI with both.",
        "Source: Files/x\nHash: 9f86d0…",
        "Source: Files/x\nAlgorithm: SHA-256\nHash: 9f86d0…",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_NONE,
        "A manifest is next to the descriptor or named by TOSCA.meta.",
        "vnfd.yaml",
        "vnfd.yaml\nvnfd.mf",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_HASH,
        "Every file has the hash that the manifest states.",
        "Hash: 60303a…   (of the file before it was edited)",
        "Hash: 9f86d0…   (what `sha256sum Files/x` prints)",
        SECURITY,
    ),
    explained(
        codes::MANIFEST_METADATA,
        "Product, provider, version and date are listed below `metadata:`.",
        "metadata:\nvnf_product_name: Web",
        "metadata:\nvnf_product_name: Web\nvnf_provider_id: Us\nvnf_package_version: 1.0\nvnf_release_date_time: 2026-11-01T10:00:00Z\nvnfm_info: etsivnfm:v3.3.1",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_DATE,
        "The date is in the format of RFC 3339, with its time zone.",
        "vnf_release_date_time: 01.11.2026",
        "vnf_release_date_time: 2026-11-01T10:00:00Z",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_DIFFERS,
        "The manifest and the VNFD agree on product, provider and versions.",
        "vnf_product_name: Shop   (VNFD: product_name: Web)",
        "vnf_product_name: Web",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_LINE,
        "Each line is `Key: value`, empty, or part of a signature.",
        "Source Definitions/vnfd.yaml",
        "Source: Definitions/vnfd.yaml",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_TWICE,
        "Each file is named once.",
        "Source: a.yaml\nSource: a.yaml",
        "Source: a.yaml",
        MANIFEST,
    ),
    explained(
        codes::MANIFEST_HASHES,
        "All files have hashes, or none: otherwise a reader assumes that all are checked.",
        "Source: Files/a\nAlgorithm: SHA-256\nHash: 9f86d0…\nSource: Files/b",
        "Source: Files/a\nAlgorithm: SHA-256\nHash: 9f86d0…\nSource: Files/b\nAlgorithm: SHA-256\nHash: 4e0740…",
        SECURITY,
    ),
    explained(
        codes::SIGNATURE,
        "A server that must know who created a package verifies its signature.",
        "-----BEGIN CMS-----",
        "packages: {signatures: require, trust: vendors.pem}   (in the configuration of the server)",
        SECURITY,
    ),
    explained(
        codes::SIGNATURE_WRONG,
        "The signature was made over the files in the package, with the key of the certificate that is in it.",
        "(a manifest that was edited after it was signed)",
        "vnfmctl package sign FOLDER --key vendor.key --cert vendor.pem",
        SECURITY,
    ),
    explained(
        codes::SIGNATURE_GAP,
        "A signed manifest states the hash of every file.",
        "Source: Scripts/install.sh\n-----BEGIN CMS-----",
        "Source: Scripts/install.sh\nAlgorithm: SHA-256\nHash: 9f86d0…\n-----BEGIN CMS-----",
        SECURITY,
    ),
    explained(
        codes::FILE_UNNAMED,
        "The manifest names every file except itself, signatures, a README at the root and `requests/`.",
        "Source: vnfd.yaml",
        "Source: vnfd.yaml\nSource: Scripts/install.sh",
        MANIFEST,
    ),
    explained(
        codes::FILE_JUNK,
        "The package contains only files that the VNF needs.",
        "Thumbs.db",
        "(removed)",
        STRUCTURE,
    ),
    explained(
        codes::SECRET_KEY,
        "Private keys are generated for each instance, or come with the request.",
        "-----BEGIN PRIVATE KEY-----",
        "key: {get_input: private_key}",
        SECRETS,
    ),
    explained(
        codes::SECRET_KUBECONFIG,
        "Clusters are VIMs: their credentials are registered with the server, not packaged.",
        "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: 'eyJhbGciOi'}}]",
        "(removed, and the cluster registered: `vnfmctl vim register --name cluster --config-file admin.conf`)",
        SECRETS,
    ),
    explained(
        codes::SECRET_PASSWORD,
        "Passwords come with the request, as inputs, parameters or variables without a default.",
        "password: {type: string, default: admin}",
        "password: {type: string}",
        SECRETS,
    ),
    explained(
        codes::SECRET_TOKEN,
        "Tokens come with the request; revoke one that was packaged.",
        "token: ghp_…",
        "token: $token",
        SECRETS,
    ),
];
