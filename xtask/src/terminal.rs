//! What people see: one line per step with its time, a moving bar for what is long.
//!
//! Where standard error is no terminal there are plain lines and nothing moves.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Says something to the person in front of us.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// Whether somebody watches.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Something long that is going on.
pub(crate) struct Busy {
    label: String,
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Busy {
    /// Begins; on a terminal a bar shows the time that passes.
    pub(crate) fn begin(label: &str) -> Self {
        let bar = is_watched().then(|| {
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

    /// The latest word about it; plain output shows each once.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.trim().to_owned()),
            None => note(&format!("           {text}")),
        }
    }

    /// Ends well; returns the seconds it took.
    pub(crate) fn done(self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        self.close();
        note(&format!("{seconds:7.1} s  {}", self.label));
        seconds
    }

    /// Ends badly.
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
