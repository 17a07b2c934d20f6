//! Findings: what is wrong or doubtful in a package, its position, and how to fix it.
//!
//! ```text
//! Definitions/vnfd.yaml:41:5: error[E-NODE-UNKNOWN]: no node template `workerNod` (hint: did you mean `workerNode`?)
//! ```
//! All findings of a package are collected before it is refused; errors refuse it, warnings do
//! not. Every code is in [`CODES`] with one sentence, and explained at length in `lint/explain`.
//! Findings that merely follow from another one are dropped (`suppress.rs`).

use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A position in a file of the package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Path in the package; `builtin:…` for this crate's own types.
    pub file: Arc<str>,
    /// Line, from 1; 0 means the entire file.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Span {
    /// The entire file, without a line.
    pub fn file(path: &str) -> Self {
        Span {
            file: Arc::from(path),
            line: 0,
            column: 0,
        }
    }

    /// Column 1 of a line, for files that are not YAML.
    pub fn line(path: &str, line: usize) -> Self {
        Span {
            file: Arc::from(path),
            line,
            column: 1,
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

/// Whether a finding makes the package unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The package is refused.
    Error,
    /// The package is accepted; its vendor should check this.
    Warning,
}

/// One error or warning about a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// One of [`CODES`].
    pub code: &'static str,
    /// Errors refuse the package, warnings do not.
    pub severity: Severity,
    /// Its position; absent if it concerns the entire package.
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Finding {
    /// A finding with a code of [`codes`]; the code's first letter (`E` or `W`) gives the severity.
    pub fn new(
        code: &'static str,
        span: impl Into<Option<Span>>,
        message: impl Into<String>,
    ) -> Self {
        let severity = if code.starts_with('W') {
            Severity::Warning
        } else {
            Severity::Error
        };
        Finding {
            code,
            severity,
            span: span.into(),
            message: message.into(),
            hint: None,
        }
    }

    /// Sets the hint on how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint "did you mean …?" if a known name is similar to `name`.
    #[must_use]
    pub fn did_you_mean<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match crate::suggest::nearest(name, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = &self.span {
            write!(f, "{span}: ")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// All findings of a package that was refused, errors and warnings, in the order of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// A list of one finding.
    pub fn one(finding: Finding) -> Self {
        Findings(vec![finding])
    }

    /// Errors and warnings, in the order of the files.
    pub fn as_slice(&self) -> &[Finding] {
        &self.0
    }

    /// Only the findings that refuse the package.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.0
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
    }
}

impl From<Vec<Finding>> for Findings {
    fn from(mut findings: Vec<Finding>) -> Self {
        sort(&mut findings);
        Findings(findings)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// Sorts findings by position and drops duplicates, since a file may be read twice.
pub(crate) fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| {
        (&a.span, a.severity, a.code, &a.message).cmp(&(&b.span, b.severity, b.code, &b.message))
    });
    findings.dedup();
}

/// Collects the findings of the parsers.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    findings: Vec<Finding>,
}

impl Sink {
    pub(crate) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Takes over all findings of `other`.
    pub(crate) fn append(&mut self, other: Sink) {
        self.findings.extend(other.findings);
    }

    /// Whether there is an error among the findings.
    pub(crate) fn failed(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Whether there is a finding with one of these codes.
    pub(crate) fn has(&self, codes: &[&str]) -> bool {
        self.findings
            .iter()
            .any(|finding| codes.contains(&finding.code))
    }

    /// All findings in the order of the files, without those that follow from another one.
    pub(crate) fn all(self) -> Vec<Finding> {
        let mut findings = self.findings;
        sort(&mut findings);
        crate::suppress::drop_consequences(&mut findings);
        findings
    }

    /// The warnings, or all findings if there is an error among them.
    pub(crate) fn finish(self) -> Result<Vec<Finding>, Findings> {
        let failed = self.failed();
        let findings = self.all();
        if failed {
            Err(Findings(findings))
        } else {
            Ok(findings)
        }
    }
}

/// A code with its meaning; `docs/errors.md` is generated from these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Code {
    /// `E-…` for errors, `W-…` for warnings.
    pub code: &'static str,
    /// One sentence that ends with a full stop.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// A constant for each code.
        pub mod codes {
            $(#[doc = $meaning] pub const $name: &str = $code;)*
        }
        /// Every code that a finding can carry.
        pub const CODES: &[Code] = &[$(Code { code: $code, meaning: $meaning },)*];
    };
}

codes! {
    ZIP = "E-ZIP", "The archive is damaged or uses a zip feature that is not supported.";
    ZIP_PATH = "E-ZIP-PATH", "An entry's name is absolute, leaves the package, or uses Windows syntax.";
    ZIP_SYMLINK = "E-ZIP-SYMLINK", "The package contains a symbolic link or a special file.";
    ZIP_DUPLICATE = "E-ZIP-DUPLICATE", "Two entries have the same name or names that differ only in case, or one entry is both a file and a folder.";
    ZIP_ENCRYPTED = "E-ZIP-ENCRYPTED", "An entry is encrypted.";
    ZIP_BOMB = "E-ZIP-BOMB", "The archive has too many entries, unpacks to too many bytes, is compressed too densely, or its entries overlap.";
    IO = "E-IO", "The package cannot be read.";
    ENTRY = "E-ENTRY", "The package does not name the file that describes the VNF, or that file is missing.";
    META = "E-META", "TOSCA-Metadata/TOSCA.meta cannot be read.";
    MANIFEST = "E-MANIFEST", "The manifest cannot be read, names a file that is not in the package, or names an external artifact without its hash.";
    MANIFEST_HASH = "E-MANIFEST-HASH", "A file does not have the hash that the manifest states.";
    MANIFEST_NONE = "W-MANIFEST-NONE", "The package has no manifest, so the integrity of its files cannot be checked.";
    SIGNATURE = "W-SIGNATURE", "The manifest is signed, but only its hashes were checked, not its signature.";
    SIGNATURE_WRONG = "W-SIGNATURE-WRONG", "A signature does not match what it signs, or cannot be read.";
    SIGNATURE_GAP = "W-SIGNATURE-GAP", "The manifest is signed but states no hash for a file, so the signature does not cover that file.";
    YAML = "E-YAML", "A file is not valid YAML.";
    YAML_DUPLICATE = "E-YAML-DUPLICATE", "A mapping has the same key twice.";
    YAML_BOMB = "E-YAML-BOMB", "A YAML file is too large, nested too deeply, or expands too much through its aliases.";
    YAML_11 = "W-YAML-11", "An unquoted scalar means something else to YAML 1.1 parsers.";
    YAML_MERGE = "W-YAML-MERGE", "The merge key `<<` is used; it is applied, but YAML 1.2, and so TOSCA, does not define it.";
    YAML_NUMBER = "W-YAML-NUMBER", "A string is written as an unquoted number, which other parsers change.";
    TOSCA_VERSION = "E-TOSCA-VERSION", "`tosca_definitions_version` is missing or not supported.";
    SHAPE = "E-SHAPE", "A value is not of the kind (mapping, list, text, number) that is expected there.";
    KEY_UNKNOWN = "E-KEY-UNKNOWN", "TOSCA does not define this key here.";
    IMPORT = "E-IMPORT", "An imported file is neither in the package nor among the built-in types.";
    IMPORT_CYCLE = "W-IMPORT-CYCLE", "Files import each other in a cycle; each is read once.";
    IMPORT_OTHER = "W-IMPORT-OTHER", "ETSI's NSD or PNFD types are imported; they are not built in, and no VNFD needs them.";
    TYPE_UNKNOWN = "E-TYPE-UNKNOWN", "No imported file declares a type.";
    TYPE_CYCLE = "E-TYPE-CYCLE", "A type derives from itself.";
    TYPE_BOMB = "E-TYPE-BOMB", "Data types contain each other so often that their values would have no end.";
    TYPE_REDEFINED = "W-TYPE-REDEFINED", "The package declares a built-in type; the built-in declaration is used.";
    SOL001_VERSION = "W-SOL001-VERSION", "The package names an unknown version of SOL001, or several versions.";
    SOL001_OTHER = "W-SOL001-OTHER", "A type, property, requirement or operation belongs to another version of SOL001 than the package's.";
    PROPERTY_UNKNOWN = "E-PROPERTY-UNKNOWN", "The type does not declare a property.";
    PROPERTY_MISSING = "E-PROPERTY-MISSING", "A property that the type requires is missing.";
    PROPERTY_TYPE = "E-PROPERTY-TYPE", "A property's value is not of the declared type.";
    PROPERTY_CONSTRAINT = "E-PROPERTY-CONSTRAINT", "A property's value violates a declared constraint.";
    PATTERN = "W-PATTERN", "A constraint's pattern is not a supported regular expression, so values are not checked against it.";
    INPUT_UNKNOWN = "E-INPUT-UNKNOWN", "`get_input` names an input that the topology does not declare.";
    FUNCTION = "E-FUNCTION", "A TOSCA function cannot be evaluated at onboarding.";
    NODE_UNKNOWN = "E-NODE-UNKNOWN", "A requirement, policy or mapping names a node template that does not exist.";
    NODE_FILTER = "E-NODE-FILTER", "A requirement selects a node template by type or filter, and not exactly one matches.";
    NODE_KIND = "E-NODE-KIND", "A requirement, policy or mapping names a node template of the wrong kind.";
    REQUIREMENT_UNKNOWN = "E-REQUIREMENT-UNKNOWN", "The node's type does not declare a requirement.";
    REQUIREMENT_UNDECLARED = "W-REQUIREMENT-UNDECLARED", "`substitution_mappings` maps a requirement that the VNF's type does not declare.";
    SUBSTITUTION = "W-SUBSTITUTION", "`substitution_mappings.node_type` and the type of the VNF's node template are unrelated.";
    OPERATION_UNKNOWN = "E-OPERATION-UNKNOWN", "An interface names an operation that its type does not have.";
    INTERFACE_UNKNOWN = "E-INTERFACE-UNKNOWN", "A node template implements an interface that its type does not have.";
    IMPLEMENTATION_UNKNOWN = "W-IMPLEMENTATION-UNKNOWN", "An operation's implementation is neither an artifact nor a file; the server's configuration must map its name to a plugin.";
    ARTIFACT_MISSING = "E-ARTIFACT-MISSING", "An artifact's file is not in the package.";
    ARTIFACT_ABSENT = "W-ARTIFACT-ABSENT", "An artifact's file is not in the package; a plugin or an image on the VIM must provide it.";
    VNF_MISSING = "E-VNF-MISSING", "No node template is a VNF.";
    VNF_PROPERTY = "E-VNF-PROPERTY", "A property that identifies the VNF is missing.";
    FLAVOUR = "E-FLAVOUR", "A deployment flavour has no identifier, or two flavours have the same one.";
    POLICY = "E-POLICY", "A scaling or instantiation policy contradicts another policy or the VDU's profile.";
    RESOURCES = "E-RESOURCES", "At some level that the descriptor allows, an instance would exceed the limit on resources.";
    ORDER_FILE = "E-ORDER-FILE", "Files/kubernetes/order.yaml cannot be used.";
    ORDER_MANIFEST = "E-ORDER-MANIFEST", "The order file names a manifest that is not in the package.";
    HOT = "E-HOT", "A Base HOT or Files/openstack/parameters.yaml cannot be used.";
    HOT_PARAMETER = "E-HOT-PARAMETER", "The mapping fills a parameter that the Base HOT does not declare, or takes its value from an unknown source.";
    ASD = "E-ASD", "An application service descriptor lacks a mandatory attribute, or has an invalid one.";
    ASD_UNKNOWN = "W-ASD-UNKNOWN", "An application service descriptor has an attribute that no dialect defines; it is ignored.";
    TYPES_INDENT = "W-TYPES-INDENT", "Type definitions start in the first column instead of below their section; they are read as if indented.";
    HOT_UNMAPPED = "W-HOT-UNMAPPED", "The Base HOT declares a parameter that has no default and that nothing fills.";
    YAML_DATE = "W-YAML-DATE", "An unquoted date is a timestamp to YAML 1.1 parsers and text to others.";
    YAML_BOM = "W-YAML-BOM", "A file starts with a byte order mark.";
    KEY_UNUSED = "W-KEY-UNUSED", "TOSCA does not define this key here; it is ignored.";
    CONSTRAINT = "W-CONSTRAINT", "A constraint cannot be satisfied.";
    REFERENCE = "W-REFERENCE", "A function names a node template that does not exist.";
    INPUT_UNUSED = "W-INPUT-UNUSED", "An input is declared but not used.";
    OCCURRENCES = "W-OCCURRENCES", "A requirement is assigned more or less often than its type allows.";
    VNF_REQUIRED = "W-VNF-REQUIRED", "A property that SOL001 requires of every VNF is missing.";
    VNFM_INFO = "W-VNFM-INFO", "`vnfm_info` names a VNFM in a form that SOL001 does not define.";
    VDU_INITIAL = "W-VDU-INITIAL", "A VDU has no initial delta, so its number of instances is a guess.";
    VDU_IMAGE = "W-VDU-IMAGE", "A virtual machine has no image, neither in the VNFD nor from a Base HOT.";
    VDU_COMPUTE = "W-VDU-COMPUTE", "A virtual machine states neither its CPUs and memory nor a flavor, and no Base HOT does.";
    ASPECT_DELTAS = "W-ASPECT-DELTAS", "A scaling aspect scales no VDU.";
    ASPECT_STEPS = "W-ASPECT-STEPS", "The steps of a scaling aspect do not match its highest level.";
    DELTA_UNUSED = "W-DELTA-UNUSED", "No step of its scaling aspect uses a delta.";
    DELTA_ZERO = "W-DELTA-ZERO", "A step of a scaling aspect adds nothing.";
    SCALE_RANGE = "W-SCALE-RANGE", "At the highest scale level, a VDU has more instances than its profile allows.";
    LEVEL_DEFAULT = "W-LEVEL-DEFAULT", "There are several instantiation levels but no default.";
    LEVEL_COUNT = "W-LEVEL-COUNT", "A policy gives a VDU's number of instances at some instantiation levels but not at others.";
    CP_BINDING = "W-CP-BINDING", "A connection point is not bound to a VDU.";
    CP_LINK = "W-CP-LINK", "A connection point is neither on a virtual link nor mapped to an external requirement of the VNF.";
    CP_ORDER = "W-CP-ORDER", "Two connection points of a VDU have the same order.";
    LINK_UNUSED = "W-LINK-UNUSED", "A virtual link has no connection point.";
    STORAGE_UNUSED = "W-STORAGE-UNUSED", "No VDU uses a storage.";
    CONTAINER_UNUSED = "W-CONTAINER-UNUSED", "No deployable unit runs a container.";
    ADDRESS = "W-ADDRESS", "An address, range or gateway is invalid or outside its subnet.";
    PORT_RANGE = "W-PORT-RANGE", "The port range of a security group rule is reversed.";
    IMAGE_CHECKSUM = "W-IMAGE-CHECKSUM", "The package contains an image but does not state its checksum.";
    IMAGE_HASH = "W-IMAGE-HASH", "An image's hash does not have the length of its algorithm.";
    IMAGE_FORMAT = "W-IMAGE-FORMAT", "An image's format does not suit what starts from it.";
    IMAGE_DIFFERS = "W-IMAGE-DIFFERS", "An image in the package does not have the checksum that the descriptor states.";
    IMAGE_FIT = "W-IMAGE-FIT", "An image needs more disk or memory than what starts from it has.";
    AFFINITY_ONE = "W-AFFINITY-ONE", "An affinity rule has one member with at most one instance.";
    AFFINITY_BOTH = "W-AFFINITY-BOTH", "The same members have both an affinity and an anti-affinity rule.";
    POLICY_TARGETS = "W-POLICY-TARGETS", "A policy has no targets.";
    TIMEOUT = "W-TIMEOUT", "A timeout is not a duration; it is ignored.";
    ARTIFACT_RUNNER = "W-ARTIFACT-RUNNER", "No runner can run a hook's artifact of this type.";
    ARTIFACT_UNUSED = "W-ARTIFACT-UNUSED", "No operation names an artifact for hooks.";
    SCRIPT_LINES = "W-SCRIPT-LINES", "A shell script has Windows line endings, which the shell reads as part of its commands.";
    ORDER_NONE = "W-ORDER-NONE", "The VNFD describes containers, but nothing says which manifests deploy them.";
    CHART = "W-CHART", "The workloads come from a chart or from another tool's plan, which no driver deploys yet, so instantiation is refused.";
    CHART_FILE = "W-CHART-FILE", "A chart is not in the package, or is not a Helm chart.";
    MCIOP = "W-MCIOP", "A Mciop names no chart, or a VDU belongs to several Mciops, or to none although other VDUs do.";
    WORKLOAD = "W-WORKLOAD", "No manifest creates the workload of a VDU.";
    META_KEY = "W-META-KEY", "TOSCA.meta lacks a key that SOL004 requires, or has an unknown one.";
    META_FILE = "W-META-FILE", "TOSCA.meta names a file that is not in the package.";
    MANIFEST_METADATA = "W-MANIFEST-METADATA", "The manifest lacks metadata that SOL004 requires, or has an unknown entry.";
    MANIFEST_DATE = "W-MANIFEST-DATE", "The release date is not in the format of RFC 3339.";
    MANIFEST_DIFFERS = "W-MANIFEST-DIFFERS", "The manifest contradicts the VNFD.";
    MANIFEST_LINE = "W-MANIFEST-LINE", "A line of the manifest is not `Key: value`; it is ignored.";
    MANIFEST_TWICE = "W-MANIFEST-TWICE", "The manifest names a file twice.";
    MANIFEST_HASHES = "W-MANIFEST-HASHES", "The manifest states the hashes of some files but not of others.";
    FILE_UNNAMED = "W-FILE-UNNAMED", "The manifest does not name a file of the package.";
    FILE_JUNK = "W-FILE-JUNK", "An editor or an operating system left a file behind.";
    SECRET_KEY = "W-SECRET-KEY", "The package contains a private key.";
    SECRET_KUBECONFIG = "W-SECRET-KUBECONFIG", "The package contains a kubeconfig with credentials.";
    SECRET_PASSWORD = "W-SECRET-PASSWORD", "The package contains a password.";
    SECRET_TOKEN = "W-SECRET-TOKEN", "The package contains an access token.";
    HOT_KEY = "W-HOT-KEY", "A Heat template has a key that Heat does not define.";
    HOT_FILE = "W-HOT-FILE", "A Heat template names a file that does not exist at that path.";
    HOT_REFERENCE = "W-HOT-REFERENCE", "A Heat template refers to a resource or parameter that it does not have.";
    HOT_UNUSED = "W-HOT-UNUSED", "A Heat template declares a parameter but does not use it.";
    HOT_NESTED = "W-HOT-NESTED", "A nested Heat template lacks a parameter that it needs, or is given one that it does not declare.";
    HOT_FLAVOUR = "W-HOT-FLAVOUR", "A Base HOT is in the folder of a flavour that does not exist.";
    MANIFEST_YAML = "W-MANIFEST-YAML", "A Kubernetes manifest is not valid YAML.";
    MANIFEST_UNUSED = "W-MANIFEST-UNUSED", "The order file does not name a Kubernetes manifest of the package.";
    VARIABLE_UNUSED = "W-VARIABLE-UNUSED", "A variable is declared, but no manifest uses it.";
    VARIABLE_UNKNOWN = "W-VARIABLE-UNKNOWN", "A placeholder names an undeclared variable; it stays as written.";
    K8S_OBJECT = "W-K8S-OBJECT", "A document of a manifest is not a Kubernetes object.";
    K8S_API = "W-K8S-API", "Kubernetes does not serve this `apiVersion`, or not this kind in it.";
    K8S_KIND = "W-K8S-KIND", "Kubernetes has no such kind.";
    K8S_FIELD = "W-K8S-FIELD", "Kubernetes does not define this field here.";
    K8S_NAME = "W-K8S-NAME", "An object has no name, or one that Kubernetes refuses.";
    K8S_SELECTOR = "W-K8S-SELECTOR", "A workload does not select its own pods.";
    K8S_IMAGE = "W-K8S-IMAGE", "A container has no name or no image.";
    ALLOW_REASON = "W-ALLOW-REASON", "An allow comment gives no reason; it is ignored.";
    ALLOW_CODE = "W-ALLOW-CODE", "An allow comment names a code that does not exist or cannot be allowed.";
    ALLOW_UNUSED = "W-ALLOW-UNUSED", "An allow comment matches no finding.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_displayed_like_a_compiler_error() {
        let span = Span {
            file: Arc::from("Definitions/vnfd.yaml"),
            line: 41,
            column: 5,
        };
        let finding = Finding::new(codes::NODE_UNKNOWN, span, "no node template `workerNod`")
            .did_you_mean("workerNod", ["workerNode", "masterNode"]);
        assert_eq!(
            finding.to_string(),
            "Definitions/vnfd.yaml:41:5: error[E-NODE-UNKNOWN]: no node template `workerNod` (hint: did you mean `workerNode`?)"
        );
    }

    #[test]
    fn codes_are_unique_and_start_with_their_severity() {
        let mut seen = std::collections::BTreeSet::new();
        for code in CODES {
            assert!(
                code.code.starts_with("E-") || code.code.starts_with("W-"),
                "{}",
                code.code
            );
            assert!(seen.insert(code.code), "{} twice", code.code);
            assert!(code.meaning.ends_with('.'), "{}", code.code);
        }
    }
}
