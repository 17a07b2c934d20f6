-- What tenants may have only so much of.
-- Parts of quotas that are set aside for what is still arriving. Those that are there when the database is opened were
-- set aside by a process that is gone.
CREATE TABLE reservations (
    id     TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    kind   TEXT NOT NULL,
    amount BIGINT NOT NULL
);
CREATE INDEX reservations_by_tenant ON reservations (tenant, kind);

-- Bytes of all files of a package; absent until it was measured.
ALTER TABLE packages ADD COLUMN bytes BIGINT;

-- Bytes of the audit of each tenant.
CREATE TABLE audit_sizes (
    tenant TEXT PRIMARY KEY,
    bytes  BIGINT NOT NULL
);
INSERT INTO audit_sizes (tenant, bytes) SELECT tenant, SUM(LENGTH(entry)) FROM audit GROUP BY tenant;

-- Each tenant's notifications have numbers of their own, so that none tells how many others have. Those that are there
-- keep the numbers that they were shown under, and every tenant counts on behind the highest of them: a client that
-- remembers where it was misses nothing.
ALTER TABLE outbox ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
UPDATE outbox SET number = seq;
CREATE UNIQUE INDEX outbox_by_tenant ON outbox (tenant, number);
CREATE TABLE outbox_numbers (
    tenant TEXT PRIMARY KEY,
    value  BIGINT NOT NULL
);
INSERT INTO counters (name, value)
    SELECT 'outbox_numbers', CASE WHEN value > newest THEN value ELSE newest END
    FROM counters, (SELECT COALESCE(MAX(seq), 0) AS newest FROM outbox) AS rows WHERE name = 'outbox';
