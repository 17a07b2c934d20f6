-- The package that an operation changes its instance to: it is in use until the operation has ended.
ALTER TABLE ops ADD COLUMN next_pkg_id TEXT;
CREATE INDEX ops_next_pkg ON ops (next_pkg_id) WHERE next_pkg_id IS NOT NULL;
