//! Why helm was not started, or did not succeed.

use std::io;
use std::path::PathBuf;

/// What went wrong; the texts contain no login and no values, except for what helm itself wrote (`message`).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelmError {
    /// The program cannot be read.
    #[error("cannot read the program `{}`", path.display())]
    Unreadable {
        /// Path of the program as it is configured.
        path: PathBuf,
        /// The error that the operating system reports.
        #[source]
        source: io::Error,
    },
    /// The program is not the one that was pinned; it was not started.
    #[error("`{}` has the SHA-256 {found}, but {pinned} is configured", path.display())]
    WrongHash {
        /// Path of the program as it is configured.
        path: PathBuf,
        /// The SHA-256 that the configuration pins, in lower case.
        pinned: String,
        /// The SHA-256 that the file has, in lower case.
        found: String,
    },
    /// The program is neither Helm 3 nor Helm 4.
    #[error("`{}` says that its version is `{message}`; Helm 3 or 4 is required", path.display())]
    UnknownVersion {
        /// Path of the program as it is configured.
        path: PathBuf,
        /// What it printed instead, at most 100 characters.
        message: String,
    },
    /// The child process cannot be started, or its pipes cannot be used.
    #[error("cannot run helm to {action}")]
    Process {
        /// What helm was to do.
        action: String,
        /// The error that the operating system reports.
        #[source]
        source: io::Error,
    },
    /// It was ended because it took too long.
    #[error("helm did not {action} within {seconds} s and was ended")]
    TooSlow {
        /// What helm was to do.
        action: String,
        /// The time that it had, in whole seconds.
        seconds: u64,
    },
    /// It was ended because it wrote too much.
    #[error("helm wrote more than {limit} bytes to {action} and was ended")]
    TooLarge {
        /// What helm was to do.
        action: String,
        /// How much it may write, in bytes.
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
    /// Helm itself reports an error and has ended.
    #[error("helm cannot {action}: {message}")]
    Failed {
        /// What helm was to do.
        action: String,
        /// The last lines of its standard error.
        message: String,
    },
}
