//! The types of artifacts that are scripts, and what is known of their interpreters.

/// A kind of script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bash,
    Python,
    Ansible,
}

/// `EX_TEMPFAIL` of sysexits.h: what failed may work later.
const TEMPORARY: i32 = 75;
/// What ansible-playbook ends with where hosts were not reached.
const UNREACHABLE: i32 = 4;

impl Kind {
    pub(crate) const TYPES: [&str; 3] = [
        "tosca.artifacts.Implementation.Bash",
        "tosca.artifacts.Implementation.Python",
        "tosca.artifacts.Implementation.Ansible",
    ];

    /// The kind of a TOSCA type.
    pub(crate) fn of(artifact_type: &str) -> Option<Self> {
        let known = Self::TYPES
            .iter()
            .position(|known| *known == artifact_type)?;
        [Self::Bash, Self::Python, Self::Ansible]
            .get(known)
            .copied()
    }

    /// The Debian package that brings its interpreter.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python3",
            Self::Ansible => "ansible-core",
        }
    }

    /// The member of the configuration that names its interpreter.
    pub(crate) fn configured_as(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::Ansible => "ansiblePlaybook",
        }
    }

    /// What an exit code says, where that is known.
    pub(crate) fn meaning(self, code: i32) -> &'static str {
        match (self, code) {
            (Self::Ansible, 2) => " (a task failed)",
            (Self::Ansible, UNREACHABLE) => " (a host was not reached)",
            (Self::Bash, 127) => " (a command was not found)",
            (_, TEMPORARY) => " (it says that it may work later)",
            _ => "",
        }
    }

    /// True where the same script may work later without anybody changing anything.
    pub(crate) fn is_temporary(self, code: i32) -> bool {
        code == TEMPORARY || (self == Self::Ansible && code == UNREACHABLE)
    }
}
