//! The contracts of the engine's ports: rules for stores, infrastructure drivers, `MgmtDriver`s and NFVOs. Each rule has a
//! name, a sentence and a test.
//!
//! | contract | what is tested |
//! |---|---|
//! | [`store::RULES`] | a [`Store`](vnfm_core::ports::Store), an empty one for each rule |
//! | [`infra_driver::RULES`] | an [`InfraDriver`](vnfm_core::ports::InfraDriver) on a VIM that the test can also inspect directly |
//! | [`mgmt_driver::RULES`] | [`MgmtDrivers`](vnfm_core::ports::MgmtDrivers), and one hook of one driver |
//! | [`nfvo::RULES`] | an [`Nfvo`](vnfm_core::ports::Nfvo) |
//!
//! ```
//! # use std::sync::Arc;
//! # use vnfm_conformance::{check, store};
//! # use vnfm_core::ports::Store;
//! # struct Own;
//! # fn own() -> Arc<dyn Store> { unreachable!("the example is compiled, not run") }
//! # #[allow(dead_code)]
//! // In a test of yours, on a multi-threaded tokio runtime:
//! async fn my_store_keeps_the_contract() {
//!     check(store::RULES, || async { own() }).await.unwrap();
//! }
//! ```
//!
//! Behaviour that no rule describes may change. `docs/contracts` is generated from these rules.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a violated rule panics, and `check` catches that"
)]

pub mod infra_driver;
pub mod mgmt_driver;
pub mod nfvo;
pub mod store;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::fmt;
use std::panic::AssertUnwindSafe;

/// A rule of a contract; `S` is the subject of its test.
pub struct Rule<S> {
    /// Permanent name of the rule.
    pub name: &'static str,
    says: &'static [&'static str],
    tried: fn(S) -> BoxFuture<'static, ()>,
}

impl<S> Rule<S> {
    /// The rule as a sentence.
    pub fn says(&self) -> String {
        self.says
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Tests the rule on one subject.
    ///
    /// # Errors
    ///
    /// A sentence with what was observed instead.
    pub async fn holds(&self, with: S) -> Result<(), String> {
        let tried = AssertUnwindSafe((self.tried)(with)).catch_unwind().await;
        tried.map_err(|panic| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => match panic.downcast::<&str>() {
                Ok(text) => (*text).to_owned(),
                Err(_) => "it panicked without a message".to_owned(),
            },
        })
    }
}

/// The violated rules, with their sentences and what was observed instead.
pub struct Broken(Vec<(&'static str, String, String)>);

impl Broken {
    /// Names of the violated rules.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, ..)| *name).collect()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rule(s) violated", self.0.len())?;
        for (name, says, why) in &self.0 {
            writeln!(f, "\n`{name}`: {says}\n  observed instead: {why}")?;
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

/// Tests every rule in order, each with a new subject from `fresh`.
///
/// # Errors
///
/// All violated rules, not only the first.
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

/// The rules of a contract: a sentence for each, and the test function with its name.
macro_rules! rules {
    ($with:ty: $($(#[doc = $says:literal])+ $module:ident::$name:ident;)+) => {
        /// All rules of this contract.
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
    async fn a_violated_rule_is_reported_with_its_sentence() {
        check(RULES, || async { 4 }).await.unwrap();
        let broken = check(RULES, || async { 9 }).await.unwrap_err();
        assert_eq!(broken.names(), ["small", "even"]);
        let report = format!("{broken:?}");
        assert!(
            report.contains("`small`: It is small.") && report.contains("odd"),
            "{report}"
        );
    }
}
