//! Which free host each new VNFC gets: a search with a limited number of tries, smallest suitable host first.

use crate::facts::Facts;
use crate::host_inventory::InventoryHost;
use crate::requirements::Requirements;
use std::collections::BTreeSet;
use vnfm_descriptor::Flavour;

/// Most hosts that the search tries before it gives up.
const MAX_TRIES: u32 = 200_000;

/// A VNFC without a host.
#[derive(Debug, Clone)]
pub(crate) struct NewVnfc {
    pub(crate) vdu: String,
    pub(crate) index: u32,
    pub(crate) needs: Requirements,
}

/// The VDU of a VNFC, and the zone of its host.
pub(crate) type Placed<'a> = (&'a str, Option<&'a str>);

/// An affinity rule among zones.
struct ZoneRule<'a> {
    anti: bool,
    vdus: BTreeSet<&'a str>,
}

impl ZoneRule<'_> {
    /// Whether a VNFC may be in this zone, given those of others.
    fn allows(&self, (vdu, zone): Placed<'_>, others: &[Placed<'_>]) -> bool {
        if !self.vdus.contains(vdu) {
            return true;
        }
        let Some(zone) = zone else { return false };
        let mut others = others.iter().filter(|(vdu, _)| self.vdus.contains(vdu));
        others.all(|(_, other)| (*other == Some(zone)) != self.anti)
    }
}

fn zone_rules(flavour: &Flavour) -> Vec<ZoneRule<'_>> {
    let rules = flavour.affinity_rules.iter();
    let rules = rules.filter(|rule| rule.scope == "zone");
    let rules = rules.map(|rule| ZoneRule {
        anti: rule.anti,
        vdus: rule.targets.iter().map(String::as_str).collect(),
    });
    rules.collect()
}

/// Whether the rules let a VNFC be in this zone, given those that are placed.
pub(crate) fn permits(flavour: &Flavour, here: Placed<'_>, placed: &[Placed<'_>]) -> bool {
    zone_rules(flavour)
        .iter()
        .all(|rule| rule.allows(here, placed))
}

struct Search<'a> {
    new: &'a [NewVnfc],
    /// For each new VNFC, the positions of suitable hosts in the order in which they are tried.
    suitable: Vec<Vec<usize>>,
    free: &'a [(&'a InventoryHost, &'a Facts)],
    rules: Vec<ZoneRule<'a>>,
    tries: u32,
}

impl<'a> Search<'a> {
    /// Places the VNFCs of `order` from `at` on; `chosen` has the hosts of those before.
    fn place(
        &mut self,
        order: &[usize],
        placed: &mut Vec<Placed<'a>>,
        chosen: &mut Vec<usize>,
    ) -> bool {
        let Some(next) = order.get(chosen.len()).copied() else {
            return true;
        };
        let (new, free) = (self.new, self.free);
        for host in self.suitable[next].clone() {
            self.tries += 1;
            if self.tries > MAX_TRIES {
                return false;
            }
            let here = (new[next].vdu.as_str(), free[host].0.entry.zone.as_deref());
            let fits =
                !chosen.contains(&host) && self.rules.iter().all(|rule| rule.allows(here, placed));
            if !fits {
                continue;
            }
            placed.push(here);
            chosen.push(host);
            if self.place(order, placed, chosen) {
                return true;
            }
            placed.pop();
            chosen.pop();
        }
        false
    }
}

/// The host of each new VNFC, by position in `free`; `None` if there are not enough that suit.
pub(crate) fn place<'a>(
    flavour: &'a Flavour,
    new: &'a [NewVnfc],
    mut placed: Vec<Placed<'a>>,
    free: &'a [(&'a InventoryHost, &'a Facts)],
) -> Option<Vec<usize>> {
    let suitable: Vec<Vec<usize>> = new.iter().map(|one| suitable(&one.needs, free)).collect();
    // Those with the fewest hosts first: the search then meets its dead ends early.
    let mut order: Vec<usize> = (0..new.len()).collect();
    order.sort_by_key(|position| suitable[*position].len());
    let rules = zone_rules(flavour);
    let mut search = Search {
        new,
        suitable,
        free,
        rules,
        tries: 0,
    };
    let mut chosen = Vec::new();
    if !search.place(&order, &mut placed, &mut chosen) {
        return None;
    }
    let mut hosts = vec![0; new.len()];
    for (position, host) in order.into_iter().zip(chosen) {
        hosts[position] = host;
    }
    Some(hosts)
}

fn suitable(needs: &Requirements, free: &[(&InventoryHost, &Facts)]) -> Vec<usize> {
    let fits = |position: &usize| {
        let (host, facts) = free[*position];
        needs.lacks(host, facts).is_none()
    };
    let mut found: Vec<usize> = (0..free.len()).filter(fits).collect();
    found.sort_by_key(|position| needs.rank(free[*position].0, free[*position].1));
    found
}
