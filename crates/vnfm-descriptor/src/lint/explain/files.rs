//! What is said of SOL004's own files, and of secrets.

use super::{Explanation, why};
use crate::finding::codes;

const STRUCTURE: &str = "SOL004 4.1 (CSAR structure)";
const MANIFEST: &str = "SOL004 4.3 (manifest file)";
const SECURITY: &str = "SOL004 5 (package security)";
const SECRETS: &str = "ours: a package is copied to everybody who runs the VNF";

pub(super) const ALL: &[Explanation] = &[
    why(
        codes::ENTRY,
        "`Entry-Definitions` names the descriptor, or the one YAML file at the root is it.",
        "Entry-Definitions: Definitions/vnfd.yml",
        "Entry-Definitions: Definitions/vnfd.yaml",
        STRUCTURE,
    ),
    why(
        codes::META,
        "TOSCA.meta has `Key: value` lines, and `Entry-Definitions` among them.",
        "CSAR-Version: 1.1",
        "CSAR-Version: 1.1\nEntry-Definitions: Definitions/vnfd.yaml",
        STRUCTURE,
    ),
    why(
        codes::META_KEY,
        "The first block says the versions and who packed it, with keys that SOL004 has.",
        "CSAR-Version: 1.1\nETSI-Entry-Manifset: vnf.mf",
        "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nETSI-Entry-Manifest: vnf.mf",
        STRUCTURE,
    ),
    why(
        codes::META_FILE,
        "Change log, licences, tests and certificate lie where TOSCA.meta says.",
        "ETSI-Entry-Licenses: Licences",
        "ETSI-Entry-Licenses: Licenses",
        STRUCTURE,
    ),
    why(
        codes::MANIFEST,
        "The manifest names files of the package, each with both algorithm and hash, or neither, and external artifacts by a URI of http or https with both.",
        "Source: Files/x\nHash: 9f86d0…",
        "Source: Files/x\nAlgorithm: SHA-256\nHash: 9f86d0…",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_NONE,
        "A manifest lies beside the descriptor or is named by TOSCA.meta.",
        "vnfd.yaml",
        "vnfd.yaml\nvnfd.mf",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_HASH,
        "Every file has the hash that the manifest states.",
        "Hash: 60303a…   (of the file before it was edited)",
        "Hash: 9f86d0…   (what `sha256sum Files/x` says)",
        SECURITY,
    ),
    why(
        codes::MANIFEST_METADATA,
        "Product, provider, version and date stand below `metadata:`.",
        "metadata:\nvnf_product_name: Web",
        "metadata:\nvnf_product_name: Web\nvnf_provider_id: Us\nvnf_package_version: 1.0\nvnf_release_date_time: 2026-11-01T10:00:00Z\nvnfm_info: etsivnfm:v3.3.1",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_DATE,
        "The date is one of RFC 3339, with its zone.",
        "vnf_release_date_time: 01.11.2026",
        "vnf_release_date_time: 2026-11-01T10:00:00Z",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_DIFFERS,
        "Manifest and VNFD agree on product, provider and versions.",
        "vnf_product_name: Shop   (VNFD: product_name: Web)",
        "vnf_product_name: Web",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_LINE,
        "Each line is `Key: value`, empty, or part of a signature.",
        "Source Definitions/vnfd.yaml",
        "Source: Definitions/vnfd.yaml",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_TWICE,
        "A file is named once.",
        "Source: a.yaml\nSource: a.yaml",
        "Source: a.yaml",
        MANIFEST,
    ),
    why(
        codes::MANIFEST_HASHES,
        "All files have hashes, or none: else who reads it thinks that all are checked.",
        "Source: Files/a\nAlgorithm: SHA-256\nHash: 9f86d0…\nSource: Files/b",
        "Source: Files/a\nAlgorithm: SHA-256\nHash: 9f86d0…\nSource: Files/b\nAlgorithm: SHA-256\nHash: 4e0740…",
        SECURITY,
    ),
    why(
        codes::SIGNATURE,
        "A server that must know who made a package verifies its signature.",
        "-----BEGIN CMS-----",
        "packages: {signatures: require, trust: vendors.pem}   (in the configuration of the server)",
        SECURITY,
    ),
    why(
        codes::SIGNATURE_WRONG,
        "The signature was made over what is in the package, with a key whose certificate is there.",
        "(a manifest that was edited after it was signed)",
        "vnfmctl package sign FOLDER --key vendor.key --cert vendor.pem",
        SECURITY,
    ),
    why(
        codes::SIGNATURE_GAP,
        "A signed manifest states the hash of every file.",
        "Source: Scripts/install.sh\n-----BEGIN CMS-----",
        "Source: Scripts/install.sh\nAlgorithm: SHA-256\nHash: 9f86d0…\n-----BEGIN CMS-----",
        SECURITY,
    ),
    why(
        codes::FILE_UNNAMED,
        "The manifest names every file but itself, signatures, a README at the root and `requests/`.",
        "Source: vnfd.yaml",
        "Source: vnfd.yaml\nSource: Scripts/install.sh",
        MANIFEST,
    ),
    why(
        codes::FILE_JUNK,
        "A package has what the VNF needs.",
        "Thumbs.db",
        "(left out)",
        STRUCTURE,
    ),
    why(
        codes::SECRET_KEY,
        "Private keys are made for each instance, or come with the request.",
        "-----BEGIN PRIVATE KEY-----",
        "key: {get_input: private_key}",
        SECRETS,
    ),
    why(
        codes::SECRET_KUBECONFIG,
        "Clusters are VIMs: who may log in there is registered, not packed.",
        "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: 'eyJhbGciOi'}}]",
        "(left out, and the cluster registered: `vnfmctl vim register --name cluster --config-file admin.conf`)",
        SECRETS,
    ),
    why(
        codes::SECRET_PASSWORD,
        "Passwords come with the request, by inputs, parameters or variables without default.",
        "password: {type: string, default: admin}",
        "password: {type: string}",
        SECRETS,
    ),
    why(
        codes::SECRET_TOKEN,
        "Tokens come with the request; one that was packed is withdrawn.",
        "token: ghp_…",
        "token: $token",
        SECRETS,
    ),
];
