//! Why helm was not started, or did not succeed.

use std::io;
use std::path::PathBuf;

/// What went wrong; the texts contain no login and no values, except for what helm itself wrote (`said`).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelmError {
    /// The program cannot be read.
    #[error("cannot read the program `{}`", path.display())]
    Unreadable {
        /// The configured path.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The program is not the one that was pinned; it was not started.
    #[error("`{}` has the SHA-256 {found}, but {pinned} is configured", path.display())]
    WrongHash {
        /// The configured path.
        path: PathBuf,
        /// The configured SHA-256.
        pinned: String,
        /// The SHA-256 of the file.
        found: String,
    },
    /// The program is neither Helm 3 nor Helm 4.
    #[error("`{}` says that its version is `{said}`; Helm 3 or 4 is required", path.display())]
    UnknownVersion {
        /// The configured path.
        path: PathBuf,
        /// What it printed.
        said: String,
    },
    /// The child process cannot be started, or its pipes cannot be used.
    #[error("cannot run helm to {action}")]
    Process {
        /// What helm was to do.
        action: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It was ended because it took too long.
    #[error("helm did not {action} within {seconds} s and was ended")]
    TooSlow {
        /// What helm was to do.
        action: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// It was ended because it wrote too much.
    #[error("helm wrote more than {limit} bytes to {action} and was ended")]
    TooLarge {
        /// What helm was to do.
        action: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// Our code refused the rendered objects; helm applied none of them.
    #[error("the rendered objects were refused to {action}: {reason}")]
    Refused {
        /// What helm was to do.
        action: String,
        /// The reason that the code gave.
        reason: String,
    },
    /// It reports an error.
    #[error("helm cannot {action}: {said}")]
    Failed {
        /// What helm was to do.
        action: String,
        /// The last lines of its standard error.
        said: String,
    },
}
