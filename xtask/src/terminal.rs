//! Progress on standard error: one line per step with its duration, and a spinner for long steps.
//!
//! If standard error is not a terminal, there are plain lines and no spinner.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Prints a line to standard error.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// Whether standard error is a terminal.
pub(crate) fn is_interactive() -> bool {
    std::io::stderr().is_terminal()
}

/// A long step, shown while it runs.
pub(crate) struct Progress {
    label: String,
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts the step; on a terminal a spinner shows the elapsed time.
    pub(crate) fn begin(label: &str) -> Self {
        let bar = is_interactive().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) =
                ProgressStyle::with_template("{elapsed:>6} {spinner} {prefix} {wide_msg:.dim}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(label.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            note(&format!("         … {label}"));
        }
        Self {
            label: label.to_owned(),
            began: Instant::now(),
            bar,
        }
    }

    /// Shows the latest line of output; without a terminal each line is printed once.
    pub(crate) fn show(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.trim().to_owned()),
            None => note(&format!("           {text}")),
        }
    }

    /// Ends the step as successful; returns its duration in seconds.
    pub(crate) fn done(self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        self.close();
        note(&format!("{seconds:7.1} s  {}", self.label));
        seconds
    }

    /// Ends the step as failed.
    pub(crate) fn failed(self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.close();
        note(&format!("{seconds:7.1} s  FAILED: {}", self.label));
    }

    fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
