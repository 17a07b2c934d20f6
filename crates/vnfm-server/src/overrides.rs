//! Four request headers of our own: who acts, why, which hooks to skip, and what else to terminate. The paths and bodies stay as in the
//! standard, and clients that do not know the headers lose nothing.
//!
//! | header | contents |
//! |---|---|
//! | `X-Vnfm-Operator` | name of the person who acts; recorded in the audit log in addition to the login |
//! | `X-Vnfm-Reason` | the reason, in one line; required for overrides of the VNFM's behaviour |
//! | `X-Vnfm-Skip-Hooks` | hooks that this operation skips, separated by commas |
//! | `X-Vnfm-Cascade` | `true`: terminate the VNF instances on clusters of this one first |

use crate::access::Principal;
use crate::problem::{HandlerResult, Problem};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use vnfm_core::lcm::Operation;
use vnfm_core::{Override, SkipHooks};

/// The contents of the headers.
#[derive(Debug, Clone)]
pub(crate) struct OperatorHeaders {
    /// Who acts, and for which reason.
    pub act: Override,
    skipped: Vec<String>,
    cascade: String,
}

impl OperatorHeaders {
    /// Whether the instances on clusters of this one are to be terminated first.
    ///
    /// # Errors
    ///
    /// 400 if the header is neither `true` nor `false`.
    pub(crate) fn cascade(&self) -> HandlerResult<bool> {
        match self.cascade.as_str() {
            "true" => Ok(true),
            "" | "false" => Ok(false),
            _ => Err(Problem::bad_request(
                "`X-Vnfm-Cascade` must be `true` or `false`",
            )),
        }
    }

    /// The hooks of `operation` to skip, if there are any. An operation without hooks ignores the header.
    ///
    /// # Errors
    ///
    /// 400 if there are hooks to skip, but the operation runs all of them; lists those of `all` that skip hooks.
    pub(crate) fn skip(
        self,
        operation: &Operation,
        all: &[&'static Operation],
    ) -> HandlerResult<Option<SkipHooks>> {
        let Self { act, skipped, .. } = self;
        if skipped.is_empty() || operation.hooks().is_empty() {
            return Ok(None);
        }
        if operation.skippable_hooks {
            return Ok(Some(SkipHooks {
                hooks: skipped,
                act,
            }));
        }
        let skipping = all.iter().filter(|operation| operation.skippable_hooks);
        let tasks: Vec<_> = skipping.filter_map(|operation| operation.task).collect();
        Err(Problem::bad_request(format!(
            "`X-Vnfm-Skip-Hooks` is only supported for {}",
            tasks.join(" and ")
        )))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OperatorHeaders {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let header = |name| text(&parts.headers, name);
        let anybody = Principal::anonymous();
        let principal = parts.extensions.get::<Principal>().unwrap_or(&anybody);
        let who = principal.acting_as(&header("x-vnfm-operator"));
        let hooks = header("x-vnfm-skip-hooks");
        let hooks = hooks
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let skipped = hooks.map(ToOwned::to_owned).collect();
        Ok(Self {
            act: Override::new(who, header("x-vnfm-reason")),
            skipped,
            cascade: header("x-vnfm-cascade"),
        })
    }
}

/// A header as text, cut to [`MAX_HEADER_CHARS`].
pub(crate) fn text(headers: &HeaderMap, name: &str) -> String {
    let bytes = headers
        .get(name)
        .map(axum::http::HeaderValue::as_bytes)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().take(MAX_HEADER_CHARS).collect()
}

const MAX_HEADER_CHARS: usize = 1_000;
