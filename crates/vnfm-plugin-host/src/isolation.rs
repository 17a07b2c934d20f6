//! What keeps the process of a hook from the server: said at start-up and by `check-config`.

use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result};

/// What keeps the process of a hook from the server's files, its process and its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// What keeps it from files.
    pub files: Files,
    /// What keeps it from other processes.
    pub processes: Processes,
    /// What keeps it from the network.
    pub network: Network,
}

/// What keeps the process of a hook from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Files {
    /// A root of its own, in a mount namespace, and Landlock of that version.
    RootAndLandlock(u32),
    /// A root of its own, in a mount namespace.
    Root,
    /// Landlock of that version.
    Landlock(u32),
}

/// What keeps the process of a hook from other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Processes {
    /// A namespace of processes.
    Namespace,
    /// A user of its own.
    User,
    /// Landlock.
    Landlock,
}

/// What keeps the process of a hook from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Network {
    /// Nothing: the operator gave it the server's.
    Servers,
    /// A namespace without one.
    Namespace,
    /// It makes no sockets but local ones.
    NoSockets,
}

impl Display for Isolation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            files,
            processes,
            network,
        } = self;
        write!(
            f,
            "files by {files}, processes by {processes}, network by {network}"
        )
    }
}

impl Display for Files {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::RootAndLandlock(version) => {
                write!(f, "a mount namespace and Landlock (version {version})")
            }
            Self::Root => write!(f, "a mount namespace"),
            Self::Landlock(version) => write!(f, "Landlock (version {version})"),
        }
    }
}

impl Display for Processes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Namespace => "a PID namespace",
            Self::User => "a user of their own",
            Self::Landlock => "Landlock",
        })
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Servers => "nothing (`plugins.scripts.network: true`)",
            Self::Namespace => "a network namespace",
            Self::NoSockets => "a filter of system calls",
        })
    }
}
