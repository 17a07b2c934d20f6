//! How many connections the descriptors of this process are enough for: half of those that are left once the server has
//! what it needs, at most 10000. The other half, at most 4096, is kept for the database, packages, VIMs and hooks, so that
//! a flood of connections takes nothing from operations.

use std::fmt;

/// The most connections where nothing else is configured.
const CONNECTIONS: usize = 10_000;
/// The most descriptors that are kept in reserve.
const RESERVE: usize = 4_096;
/// The least connections of one address where nothing else is configured, if three quarters are as many.
const FEW: usize = 64;
/// The limit that is taken where there is none.
const UNLIMITED: u64 = 1 << 20;

/// The descriptors of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// How many it may have.
    pub limit: usize,
    /// How many it has.
    pub open: usize,
    /// How many are not for connections.
    pub reserve: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one address at a time.
    pub of_one: usize,
}

impl Descriptors {
    /// Raises the limit as far as it may be, for this process.
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
            tracing::warn!(%error, ?maximum, "the limit of descriptors cannot be raised");
        }
    }

    /// As they are now, shared out; `wanted` connections in all and of one address, where that is configured.
    pub fn now(wanted: (Option<usize>, Option<usize>)) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = usize::try_from(limit.unwrap_or(UNLIMITED)).unwrap_or(usize::MAX);
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self::shared(limit, open, wanted)
    }

    fn shared(limit: usize, open: usize, (all, of_one): (Option<usize>, Option<usize>)) -> Self {
        let left = limit.saturating_sub(open);
        let reserve = (left / 2).min(RESERVE);
        let connections = all.unwrap_or(CONNECTIONS).min(left - reserve).max(1);
        // Nobody gets all of them, however few there are: whoever comes from elsewhere finds a quarter.
        let others = connections / 4;
        let own = others.max(FEW).min(connections - others);
        let of_one = of_one.unwrap_or(own).clamp(1, connections);
        Self {
            limit,
            open,
            reserve,
            connections,
            of_one,
        }
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            reserve,
            connections,
            of_one,
            ..
        } = self;
        write!(
            f,
            "{connections} connections at a time, {of_one} of them from one address; of {limit} descriptors {reserve} are \
             kept for the database, packages, VIMs and hooks"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        let of = |limit, open, wanted| {
            let Descriptors {
                reserve,
                connections,
                of_one,
                ..
            } = Descriptors::shared(limit, open, wanted);
            (reserve, connections, of_one)
        };
        assert_eq!(of(64, 34, (None, None)), (15, 15, 12));
        assert_eq!(of(1_024, 34, (None, None)), (495, 495, 123));
        assert_eq!(of(65_536, 36, (None, None)), (4_096, 10_000, 2_500));
        assert_eq!(
            of(1_024, 34, (Some(600), Some(700))),
            (495, 495, 495),
            "no more than there are"
        );
        assert_eq!(
            of(100, 34, (None, None)),
            (33, 33, 25),
            "others find a quarter"
        );
        assert_eq!(of(1_024, 34, (Some(100), Some(10))), (495, 100, 10));
        assert_eq!(of(8, 34, (None, None)), (0, 1, 1), "it serves all the same");
    }
}
