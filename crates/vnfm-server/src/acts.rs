//! What a request says, beside what the standard lets it say, of who asks and why: three headers of ours. So the
//! standard's paths and bodies stay the standard's, and whoever does not know the headers loses nothing.
//!
//! | header | what |
//! |---|---|
//! | `X-Vnfm-Operator` | who, as they say; for the audit, beside the login where there is one |
//! | `X-Vnfm-Reason` | why, in one line; needed by whatever overrides what the VNFM would do |
//! | `X-Vnfm-Skip-Hooks` | hooks that this operation is not to run, with commas between them |

use crate::access::{self, Principal};
use crate::problem::{Answer, Problem};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use vnfm_core::{Override, SkipHooks};

/// Who asks, why, and without which hooks.
#[derive(Debug, Clone)]
pub struct Acting {
    /// Who, and why.
    pub act: Override,
    skipped: Vec<String>,
}

impl Acting {
    /// The hooks to leave out, if there are any.
    pub fn skip(self) -> Option<SkipHooks> {
        let Self { act, skipped } = self;
        (!skipped.is_empty()).then_some(SkipHooks {
            hooks: skipped,
            act,
        })
    }

    /// Refuses hooks to leave out, where all are run.
    ///
    /// # Errors
    ///
    /// 400 where there are some.
    pub fn no_skip(&self) -> Answer<()> {
        if self.skipped.is_empty() {
            return Ok(());
        }
        Err(Problem::bad_request(
            "`X-Vnfm-Skip-Hooks` is for terminate and heal alone",
        ))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Acting {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let said = |name| text(&parts.headers, name);
        let anybody = Principal::anybody();
        let principal = parts.extensions.get::<Principal>().unwrap_or(&anybody);
        let who = access::who(principal, &said("x-vnfm-operator"));
        let hooks = said("x-vnfm-skip-hooks");
        let hooks = hooks
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let skipped = hooks.map(ToOwned::to_owned).collect();
        Ok(Self {
            act: Override::new(who, said("x-vnfm-reason")),
            skipped,
        })
    }
}

/// A header as text, cut where it is longer than anybody reads.
pub(crate) fn text(headers: &HeaderMap, name: &str) -> String {
    let bytes = headers
        .get(name)
        .map(axum::http::HeaderValue::as_bytes)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().take(LONGEST).collect()
}

const LONGEST: usize = 1_000;
