//! Scripts in the place of helm: how a program is checked, bounded and ended.

#[cfg(test)]
mod runs;
