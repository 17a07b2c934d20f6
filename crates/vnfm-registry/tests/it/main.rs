//! Pushing to a registry: the real one of Debian, and hostile ones.

mod hostile;
mod image;
mod real;
mod running;
