//! The driver against simulated hosts, over real SSH and through the plugin boundary.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod heal;
#[cfg(test)]
mod install;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod script;
#[cfg(test)]
mod trial;
