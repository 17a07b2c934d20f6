//! How long an operation had no external call in flight, from the trace spans of one demo run.
//!
//! External calls are calls to a VIM, watches, host services of a hook, and the pauses while polling an external change,
//! except the last pause before the poll that found it done: it may have been done all that time. The same holds for the
//! pauses of a hook. So the result is an upper bound.

use vnfm_spans::Span;

/// Start and end, in seconds.
type Interval = (f64, f64);

/// The name of each operation, with the seconds for which it had no external call in flight.
pub(crate) fn idle(spans: &[Span]) -> Vec<(String, f64)> {
    let mut operations: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "operation")
        .collect();
    operations.sort_by(|a, b| a.interval().0.total_cmp(&b.interval().0));
    let idle_times = |operation: &&Span| {
        let name = operation.attribute("operation").unwrap_or_default();
        (name, idle_in(operation, spans))
    };
    operations.iter().map(idle_times).collect()
}

fn idle_in(operation: &Span, spans: &[Span]) -> f64 {
    let own: Vec<_> = spans
        .iter()
        .filter(|span| span.trace_id == operation.trace_id)
        .collect();
    let mut progress = Vec::new();
    for span in &own {
        match span.name.as_str() {
            "vim_call" | "watch" => progress.push(span.interval()),
            "wait" => progress.push(pauses(span, &own)),
            "hook_call" => match span.attribute("service").as_deref() {
                Some("sleep") if is_last(span, &own) => {}
                Some("sleep" | "ssh.run" | "ssh.put" | "ssh.wait" | "http") => {
                    progress.push(span.interval());
                }
                _ => {}
            },
            _ => {}
        }
    }
    let (from, to) = operation.interval();
    to - from - covered(progress, (from, to))
}

/// A wait, up to the pause before its last poll.
fn pauses(wait: &Span, spans: &[&Span]) -> Interval {
    let (from, to) = wait.interval();
    let Some(pause) = wait
        .attribute("last_pause_ms")
        .and_then(|text| text.parse::<f64>().ok())
    else {
        return (from, to);
    };
    let polls = spans.iter().filter(|span| span.parent == wait.id);
    let mut polls: Vec<_> = polls.map(|span| span.interval()).collect();
    polls.sort_by(|a, b| a.0.total_cmp(&b.0));
    let gap = polls
        .windows(2)
        .rev()
        .find(|pair| pair[1].0 - pair[0].1 >= pause / 1e3 * 0.9);
    (from, gap.map_or(from, |pair| pair[0].1))
}

/// Seconds within which a hook that is still polling pauses again.
const NEXT_PAUSE: f64 = 3.0;

/// Whether the hook stopped polling after this pause.
fn is_last(pause: &Span, spans: &[&Span]) -> bool {
    let (_, end) = pause.interval();
    let next = |span: &&&Span| {
        span.name == "hook_call"
            && span.attribute("service").as_deref() == Some("sleep")
            && (end..end + NEXT_PAUSE).contains(&span.interval().0)
    };
    spans.iter().find(next).is_none()
}

/// Seconds of a period that are covered by these intervals.
fn covered(mut intervals: Vec<Interval>, (from, to): Interval) -> f64 {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut reached) = (0.0, from);
    for (begin, end) in intervals {
        let (begin, end) = (begin.max(reached), end.min(to));
        sum += (end - begin).max(0.0);
        reached = reached.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::idle;
    use serde_json::{Value, json};
    use vnfm_spans::Span;

    fn span(
        name: &str,
        (id, parent): (&str, &str),
        (from, to): (u64, u64),
        attributes: &Value,
    ) -> Span {
        let nanos = |tenths: u64| (tenths * 100_000_000).to_string();
        let attributes = attributes
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| json!({"key": key, "value": {"v": value}}));
        let attributes: Vec<_> = attributes.collect();
        let sent = json!({"name": name, "traceId": "t", "spanId": id, "parentSpanId": parent,
            "startTimeUnixNano": nanos(from), "endTimeUnixNano": nanos(to), "attributes": attributes});
        serde_json::from_value(sent).unwrap()
    }

    #[test]
    fn time_outside_calls_and_the_last_pause_count_as_idle() {
        let none = json!({});
        let spans = [
            span(
                "operation",
                ("o", ""),
                (0, 100),
                &json!({"operation": "HEAL"}),
            ),
            span("vim_call", ("a", "o"), (5, 10), &none), // idle before it: 0.5 s
            span(
                "wait",
                ("w", "o"),
                (10, 40),
                &json!({"last_pause_ms": 1000}),
            ),
            span("vim_call", ("b", "w"), (11, 12), &none),
            span("vim_call", ("c", "w"), (24, 25), &none), // after it the last pause: 1.0 s
            span("vim_call", ("d", "w"), (35, 40), &none),
            span(
                "hook_call",
                ("e", "o"),
                (40, 60),
                &json!({"service": "ssh.run"}),
            ),
            span(
                "hook_call",
                ("f", "o"),
                (60, 65),
                &json!({"service": "sleep"}),
            ),
            span(
                "hook_call",
                ("g", "o"),
                (66, 70),
                &json!({"service": "sleep"}),
            ), // idle: 0.1 s, and 0.4 s
            span("watch", ("h", "o"), (70, 100), &none),
        ];
        let idle_times = idle(&spans);
        assert_eq!(idle_times[0].0, "HEAL");
        assert!((idle_times[0].1 - 2.0).abs() < 1e-3, "{idle_times:?}");
    }
}
