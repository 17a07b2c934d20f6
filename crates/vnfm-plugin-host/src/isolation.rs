//! How hook processes are isolated from the server; logged at start-up and printed by `check-config`.

use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result};

/// How a hook process is isolated from the server's files, processes and network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// How access to files is restricted.
    pub files: Files,
    /// How access to other processes is restricted.
    pub processes: Processes,
    /// How access to the network is restricted.
    pub network: Network,
}

/// How access to files is restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Files {
    /// Its own root in a mount namespace, and Landlock with this ABI version.
    RootAndLandlock(u32),
    /// Its own root in a mount namespace.
    Root,
    /// Landlock alone, with this ABI version.
    Landlock(u32),
}

/// How access to other processes is restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Processes {
    /// A PID namespace: other processes are invisible.
    Namespace,
    /// A user ID that no other process has.
    User,
    /// Landlock's signal scope (Linux 6.12 and newer).
    Landlock,
}

/// How access to the network is restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Network {
    /// Not restricted: the hook has the server's network.
    Servers,
    /// A network namespace without interfaces to the outside.
    Namespace,
    /// A system-call filter that allows only Unix sockets.
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
