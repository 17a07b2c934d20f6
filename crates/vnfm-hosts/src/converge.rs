//! Makes the leases of an instance match its target: survey, next action, survey again, until nothing is left to do.
//!
//! | what the survey shows | action |
//! |---|---|
//! | a VNFC leaves | its lease is marked, so that nobody takes it for a VNFC again |
//! | a host that leaves is off, as its VNFC is stopped | it is switched on, to be wiped |
//! | another host that leaves does not respond | it is switched off, if it has a power switch; its lease stays |
//! | a VNFC that stays is on a silent host | the host is switched on, or the call fails |
//! | a VNFC is missing | a free host is leased |
//! | … and no free host suits | hosts that leave are wiped, then hosts that are off are switched on (and off again if they are another VNF's), then the call fails |
//! | hosts are left over | they are wiped, and lose their lease |
//! | a VNFC should be stopped | its host is switched off |

use crate::errors::{NO_HOST, NO_SWITCH, UNRESPONSIVE};
use crate::host_inventory::InventoryHost;
use crate::host_lease::{Lease, Leased};
use crate::members::{Handle, Member, Members};
use crate::placement::{self, NewVnfc, Placed};
use crate::power::Power;
use crate::release::wipe_and_return;
use crate::requirements::{Requirements, flavour};
use crate::session::Session;
use crate::survey::{Survey, SurveyedHost};
use std::collections::BTreeSet;
use vnfm_core::ports::{Convergence, Ownership, PortError, Stop};
use vnfm_descriptor::Flavour;
use vnfm_types::VnfOperationalState;

/// Most hosts whose reason is in an error.
const MAX_REASONS: usize = 10;
/// Rounds of a change in addition to two for each host: each round marks, takes, returns or switches at least one.
const EXTRA_ROUNDS: usize = 16;

/// A change of the leases of one instance.
pub(crate) struct Change<'a> {
    pub(crate) session: Session<'a>,
    pub(crate) owner: &'a Ownership,
    pub(crate) wanted: &'a Convergence<'a>,
    pub(crate) flavour: &'a Flavour,
    pub(crate) handle: Handle,
    /// How hosts are switched off whose VNFC should not run.
    pub(crate) stop: Stop,
}

/// What a round did.
enum Round {
    /// Something changed: look again.
    Again,
    /// Nothing is left to do.
    Done,
}

/// Hosts that were switched during this change.
#[derive(Default)]
struct Switched {
    off: BTreeSet<String>,
    on: BTreeSet<String>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(
        session: Session<'a>,
        owner: &'a Ownership,
        wanted: &'a Convergence<'a>,
    ) -> Result<Self, PortError> {
        Ok(Self {
            session,
            owner,
            wanted,
            flavour: flavour(wanted.target)?,
            handle: Handle::read(wanted.handle()),
            stop: Stop::Forceful,
        })
    }

    pub(crate) fn members(&self, survey: &Survey) -> Members {
        let target = (
            &*self.wanted.target.deployment,
            &self.wanted.replace.vnfcs[..],
        );
        Members::compare(survey, self.owner, &self.handle, target)
    }

    /// Makes the change; returns the last survey, and what is recorded of the hosts.
    pub(crate) async fn make(&self) -> Result<(Survey, Handle), PortError> {
        let mut switched = Switched::default();
        let mut rounds = 0;
        loop {
            let survey = Survey::read(&self.session).await?;
            let members = self.members(&survey);
            if let Round::Done = self.round(&survey, &members, &mut switched).await? {
                let (hosts, lost) = (members.kept, members.lost);
                return Ok((survey, Handle { hosts, lost }));
            }
            rounds += 1;
            if rounds > survey.hosts.len() * 2 + EXTRA_ROUNDS {
                let what = "others keep taking the free hosts";
                return Err(PortError::new(&UNRESPONSIVE, "lease hosts", what));
            }
        }
    }

    async fn round(
        &self,
        survey: &Survey,
        members: &Members,
        switched: &mut Switched,
    ) -> Result<Round, PortError> {
        if !members.leaving.is_empty() {
            return self.mark(survey, members).await;
        }
        if let Some(name) = self.next_to_wake(survey, members, switched) {
            let error = survey.silence(&name);
            return self.switch_on(survey, &name, switched, error).await;
        }
        if self.fence(survey, members, switched).await? {
            return Ok(Round::Again);
        }
        let should_answer = |one: &&Member| is_silent(survey, &one.host) && !self.is_stopped(one);
        let silent = members.kept.iter().find(should_answer);
        if let Some(silent) = silent {
            let error = survey.silence(&silent.host);
            return self.switch_on(survey, &silent.host, switched, error).await;
        }
        if !members.missing.is_empty() {
            return self.add(survey, members, switched).await;
        }
        if let Round::Again = self.give_back(survey).await? {
            return Ok(Round::Again);
        }
        self.stop_vnfcs(survey, members).await?;
        Ok(Round::Done)
    }

    fn is_stopped(&self, member: &Member) -> bool {
        let deployment = &self.wanted.target.deployment;
        deployment.state_of(&member.vnfc) == VnfOperationalState::Stopped
    }

    /// A host that is off because its VNFC was stopped, and that leaves.
    fn next_to_wake(
        &self,
        survey: &Survey,
        members: &Members,
        switched: &Switched,
    ) -> Option<String> {
        let can_switch = |one: &SurveyedHost| one.host.switch.is_some();
        let is_asleep = |one: &&Member| {
            self.handle.hosts.contains(one)
                && self.is_stopped(one)
                && !switched.on.contains(&one.host)
                && survey.host(&one.host).is_some_and(can_switch)
        };
        let asleep = members.lost.iter().find(is_asleep);
        asleep.map(|one| one.host.clone())
    }

    /// Switches off the hosts of VNFCs that should not run.
    async fn stop_vnfcs(&self, survey: &Survey, members: &Members) -> Result<(), PortError> {
        let stopped = members.kept.iter().filter(|one| self.is_stopped(one));
        for member in stopped.collect::<Vec<_>>() {
            let Some(one) = survey.host(&member.host) else {
                continue;
            };
            let power = Power::switch_of(&self.session, &survey.inventory, &one.host)?;
            let Some(power) = power else {
                let action = format!("stop the host `{}`", member.host);
                let what = "the inventory has no `redfish`, `ipmi` or `ironic` for it";
                return Err(PortError::new(&NO_SWITCH, action, what).on(&member.host));
            };
            power.stop(self.stop).await?;
        }
        Ok(())
    }

    /// Marks the leases of VNFCs that leave.
    async fn mark(&self, survey: &Survey, members: &Members) -> Result<Round, PortError> {
        for (member, lease, line) in &members.leaving {
            if let Some(one) = survey.host(&member.host) {
                let marked = lease.returning().line();
                self.session.swap(&one.host, (line, &marked)).await?;
            }
        }
        Ok(Round::Again)
    }

    /// Switches off silent hosts whose VNFC leaves, so that it does not work alongside its successor. True if it did.
    async fn fence(
        &self,
        survey: &Survey,
        members: &Members,
        switched: &mut Switched,
    ) -> Result<bool, PortError> {
        let mut is_changed = false;
        for member in &members.lost {
            let name = &member.host;
            let is_dead = survey.silence(name).is_unavailable();
            let leaves_now = self.handle.hosts.contains(member);
            let Some(one) = survey.host(name).filter(|_| is_dead && leaves_now) else {
                continue;
            };
            if switched.on.contains(name) || switched.off.contains(name) {
                continue;
            }
            if let Some(power) = Power::switch_of(&self.session, &survey.inventory, &one.host)? {
                power.switch_off().await?;
                switched.off.insert(name.clone());
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Switches a silent host on, or fails with `error`.
    async fn switch_on(
        &self,
        survey: &Survey,
        name: &str,
        switched: &mut Switched,
        error: PortError,
    ) -> Result<Round, PortError> {
        let Some(one) = survey.host(name).filter(|_| error.is_unavailable()) else {
            return Err(error);
        };
        let power = Power::switch_of(&self.session, &survey.inventory, &one.host)?;
        match power {
            Some(power) if switched.on.insert(name.to_owned()) => power.switch_on().await?,
            _ => return Err(error),
        }
        self.session.wait_for_boot(&one.host).await?;
        Ok(Round::Again)
    }

    /// Leases hosts for the missing VNFCs, or makes room for them.
    async fn add(
        &self,
        survey: &Survey,
        members: &Members,
        switched: &mut Switched,
    ) -> Result<Round, PortError> {
        let new = self.new_vnfcs(members);
        let free: Vec<_> = survey.free().collect();
        if let Some(chosen) = placement::place(self.flavour, &new, placed(survey, members), &free) {
            for (one, position) in new.iter().zip(chosen) {
                let lease = Lease::new(self.owner, &one.vdu, one.index).line();
                // Another VNFM may have been faster: the next survey shows it.
                let _: Leased = self.session.swap(free[position].0, ("", &lease)).await?;
            }
            return Ok(Round::Again);
        }
        if survey
            .leases_of(self.owner)
            .any(|(_, lease, _)| lease.returning)
        {
            return self.give_back(survey).await;
        }
        self.switch_off_foreign(survey, switched).await?;
        match self.next_to_switch_on(survey, members, switched) {
            Some(name) => {
                self.switch_on(survey, &name, switched, survey.silence(&name))
                    .await
            }
            None => Err(self.no_host(survey, members, &switched.on)),
        }
    }

    /// Switches hosts off again that were switched on as spare ones, and turn out to be those of a VNF that was stopped.
    async fn switch_off_foreign(
        &self,
        survey: &Survey,
        switched: &mut Switched,
    ) -> Result<(), PortError> {
        let foreign = survey
            .leases()
            .filter(|(_, lease, _)| !lease.is_of(self.owner));
        let foreign: Vec<_> = foreign.map(|(host, ..)| host).collect();
        for host in foreign {
            if !switched.on.contains(host.name()) || !switched.off.insert(host.name().to_owned()) {
                continue;
            }
            if let Some(power) = Power::switch_of(&self.session, &survey.inventory, host)? {
                power.switch_off().await?;
            }
        }
        Ok(())
    }

    /// The VNFCs that need a host.
    pub(crate) fn new_vnfcs(&self, members: &Members) -> Vec<NewVnfc> {
        let deployment = &self.wanted.target.deployment;
        let new = |(vdu, index): &(String, u32)| NewVnfc {
            vdu: vdu.clone(),
            index: *index,
            needs: Requirements::of_vnfc(self.flavour, deployment, (vdu, *index)),
        };
        members.missing.iter().map(new).collect()
    }

    /// A silent host with a power switch that could serve a missing VNFC; those of VNFCs that left come last.
    fn next_to_switch_on(
        &self,
        survey: &Survey,
        members: &Members,
        switched: &Switched,
    ) -> Option<String> {
        let mut silent = self.dormant(survey, members);
        silent.retain(|host| !switched.on.contains(host.name()));
        silent.sort_by_key(|host| switched.off.contains(host.name()));
        silent.first().map(|host| host.name().to_owned())
    }

    /// Silent hosts with a power switch that could serve a missing VNFC.
    pub(crate) fn dormant<'s>(
        &self,
        survey: &'s Survey,
        members: &Members,
    ) -> Vec<&'s InventoryHost> {
        let mut hosts = self.awaited(survey, members);
        hosts.retain(|host| host.switch.is_some());
        hosts
    }

    /// Hosts that do not respond and could serve a missing VNFC, as far as inventory and affinity rules tell.
    fn awaited<'s>(&self, survey: &'s Survey, members: &Members) -> Vec<&'s InventoryHost> {
        let (new, placed) = (self.new_vnfcs(members), placed(survey, members));
        let suits = |host: &InventoryHost, one: &NewVnfc| {
            let here = (one.vdu.as_str(), host.entry.zone.as_deref());
            one.needs.lacks_by_inventory(host).is_none()
                && placement::permits(self.flavour, here, &placed)
        };
        let silent = survey.silent().filter(|(_, error)| error.is_unavailable());
        silent
            .map(|(host, _)| host)
            .filter(|host| new.iter().any(|one| suits(host, one)))
            .collect()
    }

    /// Why the missing VNFCs get no hosts; `tried` were switched on without success.
    pub(crate) fn no_host(
        &self,
        survey: &Survey,
        members: &Members,
        tried: &BTreeSet<String>,
    ) -> PortError {
        let new = self.new_vnfcs(members);
        let mut names: Vec<_> = new.iter().map(|one| format!("`{}`", one.vdu)).collect();
        names.dedup();
        let what = format!(
            "{} VNFCs of {} need hosts of their own that suit the VDUs and the affinity rules; {}",
            new.len(),
            names.join(", "),
            reasons(survey, &new).join("; ")
        );
        let mut awaited = self.awaited(survey, members).into_iter();
        let may_answer = awaited.any(|host| !tried.contains(host.name()));
        let code = if may_answer { &UNRESPONSIVE } else { &NO_HOST };
        PortError::new(code, "lease hosts", what)
    }

    /// Wipes the hosts of this instance that are no VNFC any more, and returns them.
    async fn give_back(&self, survey: &Survey) -> Result<Round, PortError> {
        let returning = survey
            .leases_of(self.owner)
            .filter(|(_, lease, _)| lease.returning);
        let hosts: Vec<_> = returning
            .map(|(host, _, line)| (host.clone(), line.to_owned()))
            .collect();
        if hosts.is_empty() {
            return Ok(Round::Done);
        }
        wipe_and_return(&self.session, &survey.inventory.wipe_command, hosts).await?;
        Ok(Round::Again)
    }
}

fn is_silent(survey: &Survey, name: &str) -> bool {
    survey.host(name).is_some_and(|one| one.state.is_err())
}

/// The VDUs of the VNFCs that stay, and their zones.
pub(crate) fn placed<'s>(survey: &'s Survey, members: &'s Members) -> Vec<Placed<'s>> {
    let zone = |name: &str| {
        survey
            .host(name)
            .and_then(|one| one.host.entry.zone.as_deref())
    };
    let kept = members.kept.iter();
    kept.map(|one| (one.vdu.as_str(), zone(&one.host)))
        .collect()
}

fn free_in(zone: Option<&str>) -> String {
    zone.map_or_else(
        || "it is free, in no zone".to_owned(),
        |zone| format!("it is free, in zone `{zone}`"),
    )
}

/// Why each host serves none of `new`.
fn reasons(survey: &Survey, new: &[NewVnfc]) -> Vec<String> {
    let mut reasons = Vec::new();
    for one in &survey.hosts {
        let reason = match &one.state {
            Err(error) => error.detail().to_owned(),
            Ok(state) if state.leased != Leased::Free => "it is leased".to_owned(),
            Ok(state) => {
                let lacks = new
                    .iter()
                    .map(|new| new.needs.lacks(&one.host, &state.facts));
                // Suits one of them: the number of hosts or a rule about zones is the reason.
                let reason = lacks.min().flatten();
                reason.unwrap_or_else(|| free_in(one.host.entry.zone.as_deref()))
            }
        };
        reasons.push(format!("`{}`: {reason}", one.host.name()));
    }
    let others = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    if others > 0 {
        reasons.push(format!("{others} more hosts do not suit either"));
    }
    reasons
}
