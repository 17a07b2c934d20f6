-- Which processes ran a step, and which of them died meanwhile; no secret. `killed` is what is looked for.
ALTER TABLE journal ADD COLUMN lives TEXT;
ALTER TABLE journal ADD COLUMN killed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX journal_killed ON journal (op_id) WHERE killed = 1;

-- Processes that stopped in order, or lost the lease of an operation: what they leave open is no death. An empty
-- `op_id` is everything that the process drives.
CREATE TABLE left_in_order (
    process TEXT NOT NULL,
    op_id   TEXT NOT NULL,
    at_ms   BIGINT NOT NULL,
    PRIMARY KEY (process, op_id)
);
