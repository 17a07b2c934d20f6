//! The contracts of the engine's ports: what a store, an infrastructure driver, a MgmtDriver and an NFVO have to keep to,
//! as rules with a name and a sentence, each of which is tried.
//!
//! | contract | what is tried |
//! |---|---|
//! | [`store::RULES`] | a [`Store`](vnfm_core::ports::Store), a fresh one for each rule |
//! | [`infra_driver::RULES`] | an [`InfraDriver`](vnfm_core::ports::InfraDriver) on a VIM that can be looked at past it |
//! | [`mgmt_driver::RULES`] | [`MgmtDrivers`](vnfm_core::ports::MgmtDrivers), and one hook of one of them |
//! | [`nfvo::RULES`] | an [`Nfvo`](vnfm_core::ports::Nfvo) |
//!
//! ```
//! # use std::sync::Arc;
//! # use vnfm_conformance::{check, store};
//! # use vnfm_core::ports::Store;
//! # struct Own;
//! # fn own() -> Arc<dyn Store> { unreachable!("the example is compiled, not run") }
//! # #[allow(dead_code)]
//! // In a test of yours, on a tokio runtime with several threads:
//! async fn my_store_keeps_the_contract() {
//!     check(store::RULES, || async { own() }).await.unwrap();
//! }
//! ```
//!
//! Behaviour that is no rule here may change. `docs/contracts` is generated from these.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a rule that does not hold panics, and is caught by `check`"
)]

pub mod infra_driver;
pub mod mgmt_driver;
pub mod nfvo;
pub mod store;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::fmt;
use std::panic::AssertUnwindSafe;

/// A rule of a contract; `S` is what it is tried with.
pub struct Rule<S> {
    /// Its name, for ever.
    pub name: &'static str,
    says: &'static [&'static str],
    tried: fn(S) -> BoxFuture<'static, ()>,
}

impl<S> Rule<S> {
    /// What it says.
    pub fn says(&self) -> String {
        self.says
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Tries it.
    ///
    /// # Errors
    ///
    /// What was found instead.
    pub async fn holds(&self, with: S) -> Result<(), String> {
        let tried = AssertUnwindSafe((self.tried)(with)).catch_unwind().await;
        tried.map_err(|panic| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => match panic.downcast::<&str>() {
                Ok(text) => (*text).to_owned(),
                Err(_) => "it panicked without a word".to_owned(),
            },
        })
    }
}

/// The rules that do not hold, with their sentences and what was found instead.
pub struct Broken(Vec<(&'static str, String, String)>);

impl Broken {
    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, ..)| *name).collect()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rule(s) do not hold", self.0.len())?;
        for (name, says, why) in &self.0 {
            writeln!(f, "\n`{name}`: {says}\n  found instead: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Broken {}

/// Tries every rule, one after the other, each with what `fresh` gives.
///
/// # Errors
///
/// All rules that do not hold.
pub async fn check<S, F>(rules: &[Rule<S>], fresh: impl Fn() -> F) -> Result<(), Broken>
where
    F: Future<Output = S>,
{
    let mut broken = Vec::new();
    for rule in rules {
        if let Err(why) = rule.holds(fresh().await).await {
            broken.push((rule.name, rule.says(), why));
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(Broken(broken))
    }
}

/// The table of a contract: the sentence of each rule, and the function of its name.
macro_rules! rules {
    ($with:ty: $($(#[doc = $says:literal])+ $module:ident::$name:ident;)+) => {
        /// Every rule.
        pub const RULES: &[crate::Rule<$with>] = &[$(crate::Rule {
            name: stringify!($name),
            says: &[$($says),+],
            tried: |with| Box::pin($module::$name(with)),
        }),+];
    };
}
pub(crate) use rules;

#[cfg(test)]
mod tests {
    use super::{Rule, check};

    const RULES: &[Rule<u8>] = &[
        Rule {
            name: "small",
            says: &[" It is", " small."],
            tried: |n| Box::pin(async move { assert!(n < 9) }),
        },
        Rule {
            name: "even",
            says: &[" It is even."],
            tried: |n| Box::pin(async move { assert_eq!(n % 2, 0, "odd") }),
        },
    ];

    #[tokio::test]
    async fn what_does_not_hold_is_told_with_its_sentence() {
        check(RULES, || async { 4 }).await.unwrap();
        let broken = check(RULES, || async { 9 }).await.unwrap_err();
        assert_eq!(broken.names(), ["small", "even"]);
        let told = format!("{broken:?}");
        assert!(
            told.contains("`small`: It is small.") && told.contains("odd"),
            "{told}"
        );
    }
}
