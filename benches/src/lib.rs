//! Figures as a table.
