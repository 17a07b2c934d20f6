//! The plugin host against real libraries: plugins in Rust and in C, good ones and every kind of bad one.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests may panic as tests may"
)]

mod c;
mod isolation;
mod loading;
mod older;
mod processes;
mod released;
mod running;
mod scripts;
mod world;
