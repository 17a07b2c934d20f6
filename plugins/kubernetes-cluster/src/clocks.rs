//! Whether the clocks of the hosts agree with each other and with the VNFM's.
//!
//! Certificates and tokens that one host makes are not valid yet on a host whose clock is behind, and etcd and leases measure by
//! these clocks. An installation, a join, an upgrade or a renewal is refused before it changes anything, as it would fail
//! half-way. The VNFM's time is read before and after the host's, so that the time of the connection does not count.

use crate::installer::PARALLEL_HOSTS;
use crate::machine::Machine;
use crate::plan::{Node, Plan};
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{ErrorKind, Object};

const PHASE: &str = "preflight";
/// How far a clock may be from the VNFM's, and two clocks from each other, in milliseconds.
const MAX_OFFSET: i64 = 30_000;

/// How far the clock of a host is from the VNFM's.
struct Offset {
    node: String,
    /// Milliseconds; below 0: the host's clock is behind.
    ahead: i64,
    /// How much of it may be due to the connection.
    uncertainty: i64,
}

/// Refuses if the clocks of these nodes are too far from the VNFM's or from each other. Nodes that do not respond are left out.
///
/// # Errors
///
/// `clocks-differ`, with each host whose clock is wrong, and by how many seconds; if a host stops responding meanwhile.
pub(crate) async fn check<'a>(
    cx: &HookContext,
    plan: &Plan,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Result<(), DriverError> {
    match problem(&read(cx, plan, nodes).await?) {
        Some(detail) => Err(DriverError::new("clocks-differ", detail).phase(PHASE)),
        None => Ok(()),
    }
}

/// Waits until new hosts respond, and then checks their clocks as [`check`] does.
///
/// # Errors
///
/// Those of [`check`]; the first host's that does not respond.
pub(crate) async fn check_new<'a>(
    cx: &HookContext,
    plan: &Plan,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Result<(), DriverError> {
    let nodes: Vec<_> = nodes.into_iter().collect();
    let reached = nodes.iter().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        host.reach().await
    });
    crate::installer::first_failure(join_all_limited(PARALLEL_HOSTS, reached).await)?;
    check(cx, plan, nodes).await
}

/// Waits until hosts respond that are to join, and checks their clocks and the control plane's as [`check`] does.
///
/// # Errors
///
/// Those of [`check_new`].
pub(crate) async fn check_joining<'a>(
    cx: &HookContext,
    plan: &'a Plan,
    nodes: impl Iterator<Item = &'a Node>,
) -> Result<(), DriverError> {
    let mut nodes: Vec<_> = nodes.collect();
    if nodes.is_empty() {
        return Ok(());
    }
    nodes.push(plan.responding_control_plane());
    check_new(cx, plan, nodes).await
}

/// Adds to `effects` how far each clock is from the VNFM's, in seconds.
///
/// # Errors
///
/// If a host stops responding meanwhile.
pub(crate) async fn show(
    cx: &HookContext,
    plan: &Plan,
    effects: Effects,
) -> Result<Effects, DriverError> {
    let offsets = read(cx, plan, plan.nodes()).await?;
    let seconds = offsets
        .into_iter()
        .map(|one| (one.node, seconds(one.ahead).into()));
    Ok(effects.metadata("clockOffsets", seconds.collect::<Object>()))
}

/// What is wrong with the clocks, if anything is.
fn problem(offsets: &[Offset]) -> Option<String> {
    let certain = |one: &&Offset| one.ahead.abs() - one.uncertainty > MAX_OFFSET;
    let mut wrong: Vec<_> = offsets.iter().filter(certain).collect();
    if wrong.is_empty() {
        let least = offsets
            .iter()
            .min_by_key(|one| one.ahead + one.uncertainty)?;
        let most = offsets
            .iter()
            .max_by_key(|one| one.ahead - one.uncertainty)?;
        let spread = most.ahead - most.uncertainty - least.ahead - least.uncertainty;
        if spread <= MAX_OFFSET {
            return None;
        }
        wrong = vec![least, most];
    }
    let hosts: Vec<_> = wrong.iter().map(|one| describe(one)).collect();
    let advice = if wrong.len() == offsets.len() && offsets.len() > 1 {
        "all hosts differ from the VNFM, whose own clock may be the wrong one: "
    } else {
        ""
    };
    Some(format!(
        "the clocks differ by more than {} s: {}; certificates and tokens would not be valid everywhere. {advice}synchronise the \
         time on these hosts (chrony or systemd-timesyncd; `timedatectl` shows the state), then retry",
        MAX_OFFSET / 1_000,
        hosts.join(", ")
    ))
}

fn describe(one: &Offset) -> String {
    let (seconds, side) = match one.ahead {
        behind @ ..0 => (seconds(-behind), "behind"),
        ahead => (seconds(ahead), "ahead of"),
    };
    format!("`{}` is {seconds} s {side} the VNFM", one.node)
}

/// Seconds with one decimal.
fn seconds(milliseconds: i64) -> f64 {
    let tenths = (milliseconds + 50 * milliseconds.signum()) / 100;
    f64::from(i32::try_from(tenths).unwrap_or(i32::MAX)) / 10.0
}

/// The clocks of the nodes that respond; none if the VNFM does not tell its time, as older ones do.
async fn read<'a>(
    cx: &HookContext,
    plan: &Plan,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Result<Vec<Offset>, DriverError> {
    let reads = nodes.into_iter().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        if host.answers().await {
            read_one(&host).await
        } else {
            Ok(None)
        }
    });
    let mut offsets = Vec::new();
    for read in join_all_limited(PARALLEL_HOSTS, reads).await {
        offsets.extend(read?);
    }
    Ok(offsets)
}

/// The clock of a host; `None` if it, or the VNFM, does not tell the time.
async fn read_one(host: &Machine<'_>) -> Result<Option<Offset>, DriverError> {
    let before = match host.cx.unix_milliseconds().await {
        Err(error) if error.kind == ErrorKind::Refused => return Ok(None),
        before => before?,
    };
    let shown = host
        .try_run(PHASE, "date +%s.%N", Secret::default())
        .await?;
    let after = host.cx.unix_milliseconds().await?;
    Ok(
        milliseconds(shown.stdout.trim()).map(|(time, precision)| Offset {
            node: host.node.name.clone(),
            ahead: time - i64::midpoint(before, after),
            uncertainty: (after - before) / 2 + precision,
        }),
    )
}

/// The time that `date +%s.%N` prints, in milliseconds since 1970, and its precision: not every `date` knows `%N`.
fn milliseconds(text: &str) -> Option<(i64, i64)> {
    let (seconds, fraction) = text.split_once('.')?;
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: Option<i64> = fraction.get(..3).and_then(|digits| digits.parse().ok());
    let (fraction, precision) = fraction.map_or((500, 500), |fraction| (fraction, 1));
    Some((
        seconds.checked_mul(1_000)?.checked_add(fraction)?,
        precision,
    ))
}

#[cfg(test)]
mod tests {
    use super::{Offset, milliseconds, problem};

    fn offsets(all: &[(&str, i64)]) -> Vec<Offset> {
        let one = |(node, ahead): &(&str, i64)| Offset {
            node: (*node).into(),
            ahead: *ahead,
            uncertainty: 100,
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_clock_that_is_far_from_the_others_is_named_with_its_seconds() {
        assert_eq!(problem(&[]), None);
        assert_eq!(problem(&offsets(&[("m1", -15_000), ("w1", 14_900)])), None);
        let ahead = problem(&offsets(&[("m1", 40), ("w1", 312_340)])).unwrap();
        assert!(
            ahead.contains("`w1` is 312.3 s ahead of the VNFM;"),
            "{ahead}"
        );
        assert!(
            !ahead.contains("`m1`") && ahead.contains("timedatectl"),
            "{ahead}"
        );
        let apart = problem(&offsets(&[("m1", -20_000), ("w1", 0), ("w2", 20_000)])).unwrap();
        assert!(
            apart.contains("`m1` is 20 s behind the VNFM, `w2` is 20 s ahead"),
            "{apart}"
        );
        let ours = problem(&offsets(&[("m1", -90_000), ("w1", -91_000)])).unwrap();
        assert!(
            ours.contains("whose own clock may be the wrong one"),
            "{ours}"
        );
    }

    #[test]
    fn the_time_of_a_slow_connection_does_not_count() {
        let slow = Offset {
            node: "w1".into(),
            ahead: 33_000,
            uncertainty: 4_000,
        };
        assert_eq!(problem(&[slow]), None);
    }

    #[test]
    fn the_time_is_read_with_or_without_a_fraction() {
        assert_eq!(
            milliseconds("1796040000.123456789"),
            Some((1_796_040_000_123, 1))
        );
        assert_eq!(
            milliseconds("1796040000.%N"),
            Some((1_796_040_000_500, 500))
        );
        for text in ["", "soon", "1796040000", "x.1", "99999999999999999999.0"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
