//! Store port: SQLite with journal, leases, outbox, and sealed secrets.
