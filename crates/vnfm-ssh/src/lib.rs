//! SSH for hooks: connect, run, put, wait; host keys pinned.
