//! The tests of charts, which a request asks for by `helm_test: true`: hooks of type `test`, which no installation runs. The
//! error of a failed one has the last lines of its pods' logs.

use crate::catalog::{Target, core};
use crate::charts::ChartRelease;
use crate::client::Session;
use crate::diagnostics::is_pod_of;
use crate::helm_account;
use crate::helm_errors::test_error;
use crate::helm_releases::{label_hooks, remaining};
use crate::item::Item;
use crate::object::find;
use crate::owned::objects;
use crate::rendering::HOOK;
use crate::status::text;
use futures::future::{Either, select};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, LogParams};
use std::pin::pin;
use std::time::Duration;
use vnfm_core::ports::{PortError, VimCall};

/// The end of a log that an error quotes, in lines and in bytes.
const MAX_LINES: i64 = 10;
const MAX_BYTES: i64 = 4096;
/// How long the log of a pod may take.
const LOG_TIME: Duration = Duration::from_secs(5);

/// Runs the tests of the charts, one release after the other, until the deadline of the step.
///
/// # Errors
///
/// A test failed, or did not end in time.
pub(crate) async fn run_all(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, charts): (&str, &[ChartRelease]),
) -> Result<(), PortError> {
    for chart in charts {
        let tests: Vec<&Item> = chart.hooks.iter().filter(|hook| is_test(hook)).collect();
        if !tests.is_empty() {
            run(cx, session, (namespace, chart), &tests).await?;
        }
    }
    Ok(())
}

fn is_test(hook: &Item) -> bool {
    let events = hook.object["metadata"]["annotations"][HOOK].as_str();
    let mut events = events.into_iter().flat_map(|events| events.split(','));
    events.any(|event| matches!(event.trim(), "test" | "test-success"))
}

async fn run(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, chart): (&str, &ChartRelease),
    tests: &[&Item],
) -> Result<(), PortError> {
    let helm = session.helm()?;
    let login = helm_account::login(cx, session, namespace).await?;
    let login = login.ok_or_else(|| helm_account::missing(cx, namespace))?;
    let action = format!("test release `{}`", chart.name);
    cx.watcher.waiting(&format!("helm to {action}"));
    let slot = cx.vim.acquire_slot(&action, Some(cx.watcher)).await;
    let kubeconfig = login.kubeconfig.reveal().as_bytes();
    let ended = helm
        .test((&chart.name, namespace), kubeconfig, remaining(cx))
        .await;
    slot.ended(true); // a failed test says nothing about the VIM
    let labelled = label_hooks(cx, session, (namespace, chart)).await;
    let Err(error) = ended else {
        return labelled;
    };
    let logs = last_lines(cx, session, namespace, tests).await;
    Err(test_error(session, chart, &error, &logs))
}

/// The last lines of the pods of failed tests; empty if none can be read.
async fn last_lines(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    tests: &[&Item],
) -> String {
    let mut quoted = Vec::new();
    for test in tests {
        let namespace = test.namespace.as_deref().unwrap_or(namespace);
        for pod in failed_pods(session, namespace, test).await {
            if let Some(log) = log(cx, session, (namespace, &pod)).await {
                let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
                quoted.push(format!("last lines of pod `{pod}`: {}", lines.join(" | ")));
            }
        }
    }
    quoted.join("; ")
}

/// Names of the failed pods of a test, which is a pod itself or controls some.
async fn failed_pods(session: &Session<'_>, namespace: &str, test: &Item) -> Vec<String> {
    let resource = core("Pod", "pods");
    let pods: Vec<DynamicObject> = if test.kind == "Pod" {
        let target = Target {
            resource,
            namespace: Some(namespace.to_owned()),
            name: test.name.clone(),
        };
        let found = find(session, &target).await.ok().flatten();
        found.into_iter().collect()
    } else {
        let selector = format!("job-name={}", test.name);
        let found = objects(session, &resource, Some(namespace), &selector).await;
        found.unwrap_or_default()
    };
    let failed = pods.into_iter().filter(|pod| {
        let object = serde_json::to_value(pod).unwrap_or_default();
        text(&object, "/status/phase") == "Failed" && is_pod_of(&object, &test.kind, &test.name)
    });
    failed.filter_map(|pod| pod.metadata.name).collect()
}

async fn log(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, pod): (&str, &str),
) -> Option<String> {
    let client = session.client().await.ok()?;
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let how = LogParams {
        tail_lines: Some(MAX_LINES),
        limit_bytes: Some(MAX_BYTES),
        ..LogParams::default()
    };
    let read = pin!(pods.logs(pod, &how));
    match select(read, cx.clock.sleep(LOG_TIME)).await {
        Either::Left((log, _)) => log.ok(),
        Either::Right(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_test;
    use crate::item::item_for_test;
    use serde_json::json;

    #[test]
    fn a_hook_is_a_test_whatever_else_it_is() {
        for (events, expected) in [
            ("test", true),
            ("test-success", true),
            ("post-install, test", true),
            ("pre-install,post-upgrade", false),
        ] {
            let hook = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "one", "annotations": {"helm.sh/hook": events}}});
            assert_eq!(is_test(&item_for_test(hook)), expected, "{events}");
        }
    }
}
