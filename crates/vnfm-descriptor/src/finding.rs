//! Findings: what is wrong or doubtful in a package, where, and what to do about it.
//!
//! ```text
//! Definitions/vnfd.yaml:41:5: error[E-NODE-UNKNOWN]: no node template `workerNod` (hint: did you mean `workerNode`?)
//! ```
//! All findings of a package are collected before it is refused; errors refuse it, warnings do
//! not. Every code is in [`CODES`] with one sentence, and explained at length in `lint/explain`.
//! What only follows from another finding is left out (`consequence.rs`).

use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A place in a file of the package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Path in the package; `builtin:…` for types that this crate brings.
    pub file: Arc<str>,
    /// Line, from 1; 0 means the file as a whole.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Span {
    /// The file as a whole.
    pub fn file(path: &str) -> Self {
        Span {
            file: Arc::from(path),
            line: 0,
            column: 0,
        }
    }

    /// A line of a file that is not YAML.
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

/// Whether a finding refuses the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The package is refused.
    Error,
    /// The package is taken; somebody should look.
    Warning,
}

/// One thing that is wrong or doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// One of [`CODES`].
    pub code: &'static str,
    /// Whether it refuses the package.
    pub severity: Severity,
    /// Where it is, if it is at one place.
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    /// A finding with a code of [`codes`]; the code's first letter says how grave it is.
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

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a "did you mean" if a known name is near.
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
    /// One finding alone.
    pub fn one(finding: Finding) -> Self {
        Findings(vec![finding])
    }

    /// The findings.
    pub fn as_slice(&self) -> &[Finding] {
        &self.0
    }

    /// The findings that refuse the package.
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

/// Orders findings by place and drops repeats: one file may be reached on two ways.
pub(crate) fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| {
        (&a.span, a.severity, a.code, &a.message).cmp(&(&b.span, b.severity, b.code, &b.message))
    });
    findings.dedup();
}

/// Where a parser puts its findings.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    findings: Vec<Finding>,
}

impl Sink {
    /// Adds a finding.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds everything that another one holds.
    pub(crate) fn append(&mut self, other: Sink) {
        self.findings.extend(other.findings);
    }

    /// Whether one of the findings refuses the package.
    pub(crate) fn failed(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Whether there is a finding of one of these codes.
    pub(crate) fn has(&self, codes: &[&str]) -> bool {
        self.findings
            .iter()
            .any(|finding| codes.contains(&finding.code))
    }

    /// Everything, in the order of the files, without what only follows from something else.
    pub(crate) fn all(self) -> Vec<Finding> {
        let mut findings = self.findings;
        sort(&mut findings);
        crate::consequence::drop_consequences(&mut findings);
        findings
    }

    /// The warnings if nothing refuses the package, else everything.
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

/// A code with its meaning; `docs/errors.md` is made of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Code {
    /// The code, `E-…` or `W-…`.
    pub code: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// The codes by name.
        pub mod codes {
            $(#[doc = $meaning] pub const $name: &str = $code;)*
        }
        /// Every code that a finding can carry.
        pub const CODES: &[Code] = &[$(Code { code: $code, meaning: $meaning },)*];
    };
}

codes! {
    ZIP = "E-ZIP", "The archive is damaged or uses a part of the zip format that is not read.";
    ZIP_PATH = "E-ZIP-PATH", "An entry's name is absolute, leaves the package or is written the Windows way.";
    ZIP_SYMLINK = "E-ZIP-SYMLINK", "The package has a symbolic link or a special file.";
    ZIP_DUPLICATE = "E-ZIP-DUPLICATE", "Two entries have the same name, or names that differ in case alone, or one is file and folder at once.";
    ZIP_ENCRYPTED = "E-ZIP-ENCRYPTED", "An entry is encrypted.";
    ZIP_BOMB = "E-ZIP-BOMB", "The archive has too many entries, becomes too large or too dense, or its entries overlap.";
    IO = "E-IO", "The package cannot be read from where it lies.";
    ENTRY = "E-ENTRY", "The package does not say which file describes the VNF, or that file is not there.";
    META = "E-META", "TOSCA-Metadata/TOSCA.meta cannot be read.";
    MANIFEST = "E-MANIFEST", "The manifest cannot be read, or names a file that is not in the package, or something outside of it without its hash.";
    MANIFEST_HASH = "E-MANIFEST-HASH", "A file does not have the hash that the manifest states.";
    MANIFEST_NONE = "W-MANIFEST-NONE", "The package has no manifest, so nothing proves that its files are whole.";
    SIGNATURE = "W-SIGNATURE", "The manifest is signed, and who read the package verified its hashes alone.";
    SIGNATURE_WRONG = "W-SIGNATURE-WRONG", "A signature does not fit what it signs, or cannot be read.";
    SIGNATURE_GAP = "W-SIGNATURE-GAP", "The manifest is signed, and states no hash of a file: nothing vouches for that file.";
    YAML = "E-YAML", "A file is not YAML.";
    YAML_DUPLICATE = "E-YAML-DUPLICATE", "A key occurs twice in one mapping.";
    YAML_BOMB = "E-YAML-BOMB", "A YAML file is too large, too deep, or grows too much by its aliases.";
    YAML_11 = "W-YAML-11", "An unquoted scalar means something else to readers of YAML 1.1.";
    YAML_MERGE = "W-YAML-MERGE", "A merge key `<<` is used; TOSCA's YAML 1.2 has none, it is merged all the same.";
    YAML_NUMBER = "W-YAML-NUMBER", "A string is written as an unquoted number that other readers change.";
    TOSCA_VERSION = "E-TOSCA-VERSION", "`tosca_definitions_version` is absent or not one that is read.";
    SHAPE = "E-SHAPE", "A part of the file is not of the kind (mapping, list, text, number) that belongs there.";
    KEY_UNKNOWN = "E-KEY-UNKNOWN", "A key is not one that TOSCA has at this place.";
    IMPORT = "E-IMPORT", "An imported file is neither in the package nor among the built-in types.";
    IMPORT_CYCLE = "W-IMPORT-CYCLE", "Files import each other in a circle; each is read once.";
    IMPORT_OTHER = "W-IMPORT-OTHER", "The standard's types of NSDs or PNFDs are imported; they are not built in, and no VNFD needs them.";
    TYPE_UNKNOWN = "E-TYPE-UNKNOWN", "A type is not declared in any imported file.";
    TYPE_CYCLE = "E-TYPE-CYCLE", "A type derives from itself.";
    TYPE_BOMB = "E-TYPE-BOMB", "Data types contain each other so often that what they describe has no end.";
    TYPE_REDEFINED = "W-TYPE-REDEFINED", "The package declares a type that is built in; the built-in one is used.";
    SOL001_VERSION = "W-SOL001-VERSION", "The package names a version of SOL001 that is not known, or several.";
    SOL001_OTHER = "W-SOL001-OTHER", "A type, property, requirement or operation is one of another version of SOL001 than the package's.";
    PROPERTY_UNKNOWN = "E-PROPERTY-UNKNOWN", "A property is not declared by the type.";
    PROPERTY_MISSING = "E-PROPERTY-MISSING", "A property that the type requires is not there.";
    PROPERTY_TYPE = "E-PROPERTY-TYPE", "A property's value is not of the declared type.";
    PROPERTY_CONSTRAINT = "E-PROPERTY-CONSTRAINT", "A property's value breaks a constraint of its declaration.";
    PATTERN = "W-PATTERN", "A constraint's pattern cannot be used, so values are not checked by it.";
    INPUT_UNKNOWN = "E-INPUT-UNKNOWN", "`get_input` names an input that the topology does not declare.";
    FUNCTION = "E-FUNCTION", "A TOSCA function cannot be evaluated when the package is onboarded.";
    NODE_UNKNOWN = "E-NODE-UNKNOWN", "A requirement, policy or mapping names a node template that does not exist.";
    NODE_FILTER = "E-NODE-FILTER", "A requirement describes a node template by its type or a filter, and none or several fit.";
    NODE_KIND = "E-NODE-KIND", "A requirement, policy or mapping names a node template of the wrong kind.";
    REQUIREMENT_UNKNOWN = "E-REQUIREMENT-UNKNOWN", "A requirement is not declared by the node's type.";
    REQUIREMENT_UNDECLARED = "W-REQUIREMENT-UNDECLARED", "`substitution_mappings` maps a requirement that the VNF's type does not declare.";
    SUBSTITUTION = "W-SUBSTITUTION", "`substitution_mappings.node_type` and the type of the VNF's node template are not related.";
    OPERATION_UNKNOWN = "E-OPERATION-UNKNOWN", "An interface names an operation that its type does not have.";
    INTERFACE_UNKNOWN = "E-INTERFACE-UNKNOWN", "A node template fills an interface that its type does not have.";
    IMPLEMENTATION_UNKNOWN = "W-IMPLEMENTATION-UNKNOWN", "An operation's implementation is neither an artifact nor a file; the configuration must serve its name.";
    ARTIFACT_MISSING = "E-ARTIFACT-MISSING", "An artifact's file is not in the package.";
    ARTIFACT_ABSENT = "W-ARTIFACT-ABSENT", "An artifact's file is not in the package; a plugin or an image on the VIM takes its place.";
    VNF_MISSING = "E-VNF-MISSING", "No node template is a VNF.";
    VNF_PROPERTY = "E-VNF-PROPERTY", "A property that identifies the VNF is nowhere given.";
    FLAVOUR = "E-FLAVOUR", "A deployment flavour has no identifier, or two have the same.";
    POLICY = "E-POLICY", "A scaling or instantiation policy contradicts another one or the VDU's profile.";
    RESOURCES = "E-RESOURCES", "An instance would have more resources than are allowed, at a level that the descriptor describes.";
    ORDER_FILE = "E-ORDER-FILE", "Files/kubernetes/order.yaml cannot be used.";
    ORDER_MANIFEST = "E-ORDER-MANIFEST", "The order file names a manifest that is not in the package.";
    HOT = "E-HOT", "A Base HOT or Files/openstack/parameters.yaml cannot be used.";
    HOT_PARAMETER = "E-HOT-PARAMETER", "The mapping fills a parameter that the Base HOT does not declare, or from something unknown.";
    ASD = "E-ASD", "An application service descriptor lacks something that it must have, or says it wrongly.";
    ASD_UNKNOWN = "W-ASD-UNKNOWN", "An application service descriptor has an attribute that no dialect knows; it is left out.";
    TYPES_INDENT = "W-TYPES-INDENT", "Definitions of types stand in the first column, beside their section instead of in it; they are read as if indented.";
    HOT_UNMAPPED = "W-HOT-UNMAPPED", "The Base HOT declares a parameter without default that nothing fills.";
    YAML_DATE = "W-YAML-DATE", "An unquoted date is a point in time to readers of YAML 1.1, and text to the others.";
    YAML_BOM = "W-YAML-BOM", "A file begins with a byte order mark.";
    KEY_UNUSED = "W-KEY-UNUSED", "A key is not one that TOSCA has at this place; nothing reads it.";
    CONSTRAINT = "W-CONSTRAINT", "Nothing can fulfil a constraint.";
    REFERENCE = "W-REFERENCE", "A function names a node template that does not exist.";
    INPUT_UNUSED = "W-INPUT-UNUSED", "An input is declared and nothing uses it.";
    OCCURRENCES = "W-OCCURRENCES", "A requirement is assigned less or more often than its type allows.";
    VNF_REQUIRED = "W-VNF-REQUIRED", "A property that SOL001 wants of every VNF is nowhere given.";
    VNFM_INFO = "W-VNFM-INFO", "`vnfm_info` names a VNFM in a way that SOL001 does not have.";
    VDU_INITIAL = "W-VDU-INITIAL", "A VDU has no initial delta, so its number of instances is a guess.";
    VDU_IMAGE = "W-VDU-IMAGE", "A virtual machine has no image, and no Base HOT gives it one.";
    VDU_COMPUTE = "W-VDU-COMPUTE", "A virtual machine says neither what CPUs and memory it needs nor a flavor, and no Base HOT does.";
    ASPECT_DELTAS = "W-ASPECT-DELTAS", "A scaling aspect scales no VDU.";
    ASPECT_STEPS = "W-ASPECT-STEPS", "The steps of a scaling aspect and its highest level do not go together.";
    DELTA_UNUSED = "W-DELTA-UNUSED", "A delta is described that no step of its scaling aspect uses.";
    DELTA_ZERO = "W-DELTA-ZERO", "A step of a scaling aspect adds nothing.";
    SCALE_RANGE = "W-SCALE-RANGE", "At the highest scale level a VDU has more instances than its profile allows.";
    LEVEL_DEFAULT = "W-LEVEL-DEFAULT", "There are several instantiation levels and none is the default.";
    LEVEL_COUNT = "W-LEVEL-COUNT", "A policy counts the instances of a VDU at some instantiation levels and not at the others.";
    CP_BINDING = "W-CP-BINDING", "A connection point is bound to no VDU.";
    CP_LINK = "W-CP-LINK", "A connection point is on no link, and is not mapped to the outside either.";
    CP_ORDER = "W-CP-ORDER", "Two connection points of a VDU have the same order.";
    LINK_UNUSED = "W-LINK-UNUSED", "No connection point is on a virtual link.";
    STORAGE_UNUSED = "W-STORAGE-UNUSED", "No VDU uses a storage.";
    CONTAINER_UNUSED = "W-CONTAINER-UNUSED", "No deployable unit runs a container.";
    ADDRESS = "W-ADDRESS", "An address, range or gateway is none, or lies outside of its subnet.";
    PORT_RANGE = "W-PORT-RANGE", "A rule of a security group begins above its end.";
    IMAGE_CHECKSUM = "W-IMAGE-CHECKSUM", "The package brings an image and does not state its checksum.";
    IMAGE_HASH = "W-IMAGE-HASH", "An image's hash has not the length of its algorithm.";
    IMAGE_FORMAT = "W-IMAGE-FORMAT", "An image is of a kind that what it is for cannot start.";
    IMAGE_DIFFERS = "W-IMAGE-DIFFERS", "An image in the package does not have the checksum that the descriptor states.";
    IMAGE_FIT = "W-IMAGE-FIT", "An image needs more disk or memory than what starts from it has.";
    AFFINITY_ONE = "W-AFFINITY-ONE", "An affinity rule has one member, of which there is at most one.";
    AFFINITY_BOTH = "W-AFFINITY-BOTH", "The same members are to be together and apart.";
    POLICY_TARGETS = "W-POLICY-TARGETS", "A policy names nothing that it holds for.";
    TIMEOUT = "W-TIMEOUT", "A time limit is not a time; it is not kept.";
    ARTIFACT_RUNNER = "W-ARTIFACT-RUNNER", "A hook's artifact is of a type that no runner serves.";
    ARTIFACT_UNUSED = "W-ARTIFACT-UNUSED", "An artifact for hooks is declared and no operation names it.";
    SCRIPT_LINES = "W-SCRIPT-LINES", "A shell script has the line ends of Windows, which the shell takes for a part of its commands.";
    ORDER_NONE = "W-ORDER-NONE", "Containers are described, and nothing says which manifests make them.";
    CHART = "W-CHART", "A chart or a plan of another tool makes the workloads; no driver deploys one yet, so instantiation is refused.";
    CHART_FILE = "W-CHART-FILE", "A chart is not in the package, or is no Helm chart.";
    MCIOP = "W-MCIOP", "A Mciop names no chart, or a VDU is brought by several Mciops, or by none where others are.";
    WORKLOAD = "W-WORKLOAD", "No manifest makes the workload of a VDU.";
    META_KEY = "W-META-KEY", "TOSCA.meta lacks a key that SOL004 wants, or has one that nobody knows.";
    META_FILE = "W-META-FILE", "TOSCA.meta names a file that is not in the package.";
    MANIFEST_METADATA = "W-MANIFEST-METADATA", "The manifest lacks metadata that SOL004 wants, or has some that nobody knows.";
    MANIFEST_DATE = "W-MANIFEST-DATE", "The date of release is not written as RFC 3339 has it.";
    MANIFEST_DIFFERS = "W-MANIFEST-DIFFERS", "The manifest says something else than the VNFD.";
    MANIFEST_LINE = "W-MANIFEST-LINE", "A line of the manifest is not `Key: value`; it is not read.";
    MANIFEST_TWICE = "W-MANIFEST-TWICE", "The manifest names a file twice.";
    MANIFEST_HASHES = "W-MANIFEST-HASHES", "The manifest states the hashes of some files and not of the others.";
    FILE_UNNAMED = "W-FILE-UNNAMED", "A file is in the package and the manifest does not name it.";
    FILE_JUNK = "W-FILE-JUNK", "A file was left by an editor or an operating system.";
    SECRET_KEY = "W-SECRET-KEY", "A private key lies in the package.";
    SECRET_KUBECONFIG = "W-SECRET-KUBECONFIG", "A kubeconfig with its credentials lies in the package.";
    SECRET_PASSWORD = "W-SECRET-PASSWORD", "A password stands in the package.";
    SECRET_TOKEN = "W-SECRET-TOKEN", "A token that opens somebody's door stands in the package.";
    HOT_KEY = "W-HOT-KEY", "A Heat template has a key that Heat does not know.";
    HOT_FILE = "W-HOT-FILE", "A Heat template names a file that is not beside it.";
    HOT_REFERENCE = "W-HOT-REFERENCE", "A Heat template refers to a resource or parameter that it does not have.";
    HOT_UNUSED = "W-HOT-UNUSED", "A Heat template declares a parameter and does not use it.";
    HOT_NESTED = "W-HOT-NESTED", "A nested Heat template needs a parameter that the one above does not give, or is given one that it does not have.";
    HOT_FLAVOUR = "W-HOT-FLAVOUR", "A Base HOT lies in the folder of a flavour that does not exist.";
    MANIFEST_YAML = "W-MANIFEST-YAML", "A manifest for Kubernetes is not YAML.";
    MANIFEST_UNUSED = "W-MANIFEST-UNUSED", "A manifest for Kubernetes lies in the package and the order file does not name it.";
    VARIABLE_UNUSED = "W-VARIABLE-UNUSED", "A variable is declared and no manifest uses it.";
    VARIABLE_UNKNOWN = "W-VARIABLE-UNKNOWN", "What looks like a variable is not declared; it stays as it is written.";
    K8S_OBJECT = "W-K8S-OBJECT", "A document of a manifest is no Kubernetes object.";
    K8S_API = "W-K8S-API", "Kubernetes does not serve this `apiVersion`, or not this kind in it.";
    K8S_KIND = "W-K8S-KIND", "Kubernetes has no such kind.";
    K8S_FIELD = "W-K8S-FIELD", "Kubernetes knows no such field here.";
    K8S_NAME = "W-K8S-NAME", "An object has no name, or one that Kubernetes refuses.";
    K8S_SELECTOR = "W-K8S-SELECTOR", "A workload does not select its own pods.";
    K8S_IMAGE = "W-K8S-IMAGE", "A container has no name or no image.";
    ALLOW_REASON = "W-ALLOW-REASON", "An allow gives no reason; it is not followed.";
    ALLOW_CODE = "W-ALLOW-CODE", "An allow names a code that does not exist, or that cannot be allowed.";
    ALLOW_UNUSED = "W-ALLOW-UNUSED", "An allow allows nothing.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compilers() {
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
    fn codes_are_unique_and_say_how_grave_they_are() {
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
