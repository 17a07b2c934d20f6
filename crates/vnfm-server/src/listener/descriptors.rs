//! Derives the number of connections from the limit of file descriptors: half of those that are free after startup, at
//! most 10000. The other half, at most 4096, is reserved for the database, packages, VIMs and hooks, so that a flood
//! of connections cannot disturb operations.

use std::fmt;

/// Default maximum number of connections.
const MAX_CONNECTIONS: usize = 10_000;
/// Maximum number of reserved descriptors.
const MAX_RESERVE: usize = 4_096;
/// Default minimum of connections per address, unless that is more than three quarters of all.
const MIN_PER_ADDRESS: usize = 64;
/// Assumed if there is no limit.
const UNLIMITED: u64 = 1 << 20;

/// The file descriptors of this process, and how they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Limit of the process on open files.
    pub limit: usize,
    /// Number of files open at startup.
    pub open: usize,
    /// Reserved for everything but connections.
    pub reserve: usize,
    /// Maximum number of connections at a time.
    pub connections: usize,
    /// Maximum number of connections per address.
    pub per_address: usize,
}

impl Descriptors {
    /// Raises the soft limit of the process to its hard limit.
    pub fn raise() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum
            && let Err(error) = setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: maximum,
                    maximum,
                },
            )
        {
            tracing::warn!(%error, ?maximum, "cannot raise the limit of file descriptors");
        }
    }

    /// The current descriptors; `configured`: connections in total and per address.
    pub fn now(configured: (Option<usize>, Option<usize>)) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = usize::try_from(limit.unwrap_or(UNLIMITED)).unwrap_or(usize::MAX);
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self::divide(limit, open, configured)
    }

    fn divide(
        limit: usize,
        open: usize,
        (all, per_address): (Option<usize>, Option<usize>),
    ) -> Self {
        let left = limit.saturating_sub(open);
        let reserve = (left / 2).min(MAX_RESERVE);
        let connections = all.unwrap_or(MAX_CONNECTIONS).min(left - reserve).max(1);
        // No address gets all connections: a quarter is always left for others.
        let others = connections / 4;
        let own = others.max(MIN_PER_ADDRESS).min(connections - others);
        let per_address = per_address.unwrap_or(own).clamp(1, connections);
        Self {
            limit,
            open,
            reserve,
            connections,
            per_address,
        }
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            reserve,
            connections,
            per_address,
            ..
        } = self;
        write!(
            f,
            "at most {connections} connections, {per_address} from one address; {reserve} of {limit} file descriptors are \
             reserved for the database, packages, VIMs and hooks"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        let divide = |limit, open, configured| {
            let Descriptors {
                reserve,
                connections,
                per_address,
                ..
            } = Descriptors::divide(limit, open, configured);
            (reserve, connections, per_address)
        };
        assert_eq!(divide(64, 34, (None, None)), (15, 15, 12));
        assert_eq!(divide(1_024, 34, (None, None)), (495, 495, 123));
        assert_eq!(divide(65_536, 36, (None, None)), (4_096, 10_000, 2_500));
        assert_eq!(
            divide(1_024, 34, (Some(600), Some(700))),
            (495, 495, 495),
            "not more than available"
        );
        assert_eq!(
            divide(100, 34, (None, None)),
            (33, 33, 25),
            "a quarter is left for others"
        );
        assert_eq!(divide(1_024, 34, (Some(100), Some(10))), (495, 100, 10));
        assert_eq!(divide(8, 34, (None, None)), (0, 1, 1), "it still serves");
    }
}
