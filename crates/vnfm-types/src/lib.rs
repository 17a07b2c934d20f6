//! SOL data model: names as the standard spells them, and the operation-state table.
