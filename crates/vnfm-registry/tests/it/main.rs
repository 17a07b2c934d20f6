//! Pushing to a registry: the real one of Debian, and hostile ones.

mod hostile;
mod image;
mod measured;
mod real;
mod running;
