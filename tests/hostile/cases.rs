//! All cases of a run, each with a number: the same seed makes the same list.

use anyhow::Result;
use vnfm_tests::rng::SeededRng;

use crate::neighbours::Learnt;
use crate::processes::Limits;
use crate::testbed::Testbed;
use crate::{
    access, destinations, disks, floods, hooks, neighbours, packages, quotas, registries, tokens,
    values,
};

/// The action of a case; fails with the violated property.
pub(crate) type Act = Box<dyn Fn(&mut Testbed, &mut SeededRng) -> Result<()> + Send + Sync>;

pub(crate) struct Case {
    pub(crate) number: usize,
    pub(crate) class: &'static str,
    pub(crate) description: String,
    pub(crate) act: Act,
    /// Set if the case needs the machine to itself, and a server with these limits.
    pub(crate) exclusive: Option<Limits>,
    /// The limits of its server, unless `exclusive`.
    pub(crate) limits: Limits,
}

impl Case {
    /// A case that may run alongside others.
    pub(crate) fn new(
        class: &'static str,
        description: String,
        act: impl Fn(&mut Testbed, &mut SeededRng) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            number: 0,
            class,
            description,
            act: Box::new(act),
            exclusive: None,
            limits: Limits::default(),
        }
    }

    /// The limits of its server.
    pub(crate) fn server_limits(&self) -> Limits {
        self.exclusive.unwrap_or(self.limits)
    }

    /// The random numbers of the case.
    pub(crate) fn rng(&self, seed: u64) -> SeededRng {
        SeededRng::new(seed ^ (self.number as u64).wrapping_mul(0x9e37_79b9))
    }
}

/// Every case of this seed. The classes are interleaved, so any prefix is a sample of all of them.
pub(crate) fn all(seed: u64, learnt: &Learnt, most: usize) -> Result<Vec<Case>> {
    let mut rng = SeededRng::new(seed);
    let mut piles = vec![
        neighbours::cases(learnt),
        access::cases()?,
        access::queries(most, &mut rng)?,
        values::bodies(learnt)?,
        values::parameters(learnt, most, &mut rng),
        values::terminal_output(),
        packages::mutations(learnt, most, &mut rng),
        packages::objects(learnt),
        packages::archives(learnt),
        destinations::cases(),
        registries::cases(),
        hooks::cases(),
        floods::cases(),
        tokens::cases(),
        quotas::cases(),
        disks::files(learnt),
        disks::full_disk(),
    ];
    for pile in &mut piles {
        rng.shuffle(pile);
    }
    let mut cases = Vec::new();
    let total: usize = piles.iter().map(Vec::len).sum();
    // Every prefix contains each class in proportion, and the first case of even the smallest class early.
    let mut order: Vec<_> = piles
        .into_iter()
        .flat_map(|pile| {
            let length = pile.len();
            let position = move |at: usize| (at * total) / length.max(1);
            pile.into_iter()
                .enumerate()
                .map(move |(at, case)| (position(at), case))
        })
        .collect();
    order.sort_by_key(|(position, _)| *position);
    for (number, (_, case)) in order.into_iter().enumerate() {
        cases.push(Case { number, ..case });
    }
    Ok(cases)
}
