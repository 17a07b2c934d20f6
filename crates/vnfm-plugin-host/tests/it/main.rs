//! The plugin host with real libraries: correct and faulty plugins in Rust and C.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code may panic"
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
