//! Why a command failed, and its exit code.

use vnfm::ports::PortError;
use vnfm_types::ProblemDetails;

/// Why a command failed; determines the exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A local error: a file, an argument, the command's own logic.
    #[error("{0}")]
    Local(String),
    /// A local error with a hint.
    #[error("{message}")]
    Hinted {
        /// What went wrong, and on what.
        message: String,
        /// What the user can do next.
        hint: String,
    },
    /// `lint` found errors or warnings.
    #[error("{message}")]
    Found {
        /// The number of errors and warnings.
        message: String,
        /// Whether there is at least one error.
        errors: bool,
    },
    /// The hook of `plugin run` failed.
    #[error("{message}")]
    Hook {
        /// Error code, number of calls and cause.
        message: String,
        /// What the user can do next.
        hint: String,
        /// Exit code: 7 if the hook may succeed later, 8 if the plugin is broken, else 1.
        code: u8,
    },
    /// A planned operation would change something.
    #[error("{0}; nothing was changed")]
    Planned(String),
    /// An operation that did not end as COMPLETED.
    #[error("{message}")]
    Operation {
        /// Its final state and the cause.
        message: String,
        /// What to do next, if known.
        hint: Option<String>,
    },
    /// The server rejected the request (4xx).
    #[error("{}", .0.detail)]
    Refused(Box<ProblemDetails>),
    /// The server failed to handle the request (5xx).
    #[error("the server failed with status {}: {}", .0.status, .0.detail)]
    Server(Box<ProblemDetails>),
    /// The server cannot be reached, or the connection broke.
    #[error("cannot reach {url}: {cause}")]
    Unreachable {
        /// Base URL of the server.
        url: String,
        /// The innermost error of the network stack.
        cause: String,
    },
}

impl Failure {
    /// The exit code documented in `--help`.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Local(_) | Self::Hinted { .. } | Self::Operation { .. } => 1,
            Self::Hook { code, .. } => *code,
            Self::Refused(_) => 3,
            Self::Planned(_) => 9,
            Self::Found { errors, .. } => 5 + u8::from(*errors),
            Self::Server(_) | Self::Unreachable { .. } => 4,
        }
    }

    /// How severe it is: lint that found warnings only is no error.
    pub fn severity(&self) -> &'static str {
        match self {
            Self::Found { errors: false, .. } => "warning",
            Self::Planned(_) => "plan",
            _ => "error",
        }
    }

    /// What the user can do next, if anything is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(problem) | Self::Server(problem) => problem.next.clone(),
            Self::Unreachable { url, cause } => Some(unreachable_hint(url, cause).into()),
            Self::Hinted { hint, .. } | Self::Hook { hint, .. } => Some(hint.clone()),
            Self::Operation { hint, .. } => hint.clone(),
            Self::Found { .. } => Some("`vnfmctl lint --explain CODE` explains a code".into()),
            Self::Local(_) | Self::Planned(_) => None,
        }
    }
}

/// What to check first, by what the network error says.
fn unreachable_hint(url: &str, cause: &str) -> &'static str {
    if !url.starts_with("http://") && !url.starts_with("https://") {
        "the server's URL must start with http:// or https://, such as http://127.0.0.1:9890"
    } else if cause.contains("CaUsedAsEndEntity") {
        "the server presents a CA certificate: give it a server certificate (basicConstraints CA:FALSE)"
    } else if cause.contains("UnknownIssuer") {
        "pass the CA that signed the server's certificate with --ca or VNFM_CA"
    } else if cause.contains("invalid HTTP version") {
        "the server may expect TLS: use https://"
    } else {
        "is vnfm-server running there? Set its URL with --server or VNFM_SERVER"
    }
}

impl From<PortError> for Failure {
    /// An error of the plugin host, with its hint.
    fn from(error: PortError) -> Self {
        Self::Hinted {
            message: error.to_string(),
            hint: error.next().to_owned(),
        }
    }
}

/// The result of a command.
pub type Outcome<T> = Result<T, Failure>;

/// A local error without a hint.
pub fn local(message: impl std::fmt::Display) -> Failure {
    Failure::Local(message.to_string())
}
