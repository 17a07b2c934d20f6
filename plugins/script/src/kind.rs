//! The artifact types that are scripts, and facts about their interpreters.

/// The kind of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bash,
    Python,
    Ansible,
}

/// `EX_TEMPFAIL` of sysexits.h: a temporary failure.
const TEMPORARY_FAILURE: i32 = 75;
/// Exit code of ansible-playbook if hosts were unreachable.
const HOST_UNREACHABLE: i32 = 4;

impl Kind {
    pub(crate) const TYPES: [&str; 3] = [
        "tosca.artifacts.Implementation.Bash",
        "tosca.artifacts.Implementation.Python",
        "tosca.artifacts.Implementation.Ansible",
    ];

    /// The kind of a TOSCA artifact type; `None` if it is not a script.
    pub(crate) fn parse(artifact_type: &str) -> Option<Self> {
        let known = Self::TYPES
            .iter()
            .position(|known| *known == artifact_type)?;
        [Self::Bash, Self::Python, Self::Ansible]
            .get(known)
            .copied()
    }

    /// The Debian package of its interpreter.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python3",
            Self::Ansible => "ansible-core",
        }
    }

    /// The member of [`Config`](crate::Config) with its interpreter.
    pub(crate) fn configured_as(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::Ansible => "ansiblePlaybook",
        }
    }

    /// The meaning of an exit code, if known, as a suffix for messages.
    pub(crate) fn meaning(self, code: i32) -> &'static str {
        match (self, code) {
            (Self::Ansible, 2) => " (a task failed)",
            (Self::Ansible, HOST_UNREACHABLE) => " (a host is unreachable)",
            (Self::Bash, 127) => " (a command was not found)",
            (_, TEMPORARY_FAILURE) => " (a temporary failure: it may work later)",
            _ => "",
        }
    }

    /// Whether a retry may succeed without any change.
    pub(crate) fn is_temporary(self, code: i32) -> bool {
        code == TEMPORARY_FAILURE || (self == Self::Ansible && code == HOST_UNREACHABLE)
    }
}
