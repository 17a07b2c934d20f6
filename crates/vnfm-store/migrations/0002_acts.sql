-- Who overrode what, and why; it outlives what it was done to.
CREATE TABLE audit (
    seq    BIGINT PRIMARY KEY,
    tenant TEXT NOT NULL,
    target TEXT NOT NULL,
    entry  TEXT NOT NULL
);
CREATE INDEX audit_by_tenant ON audit (tenant, seq);
INSERT INTO counters (name, value) VALUES ('audit', 0);

-- What is kept of an instance that was abandoned.
CREATE TABLE tombstones (
    tenant      TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    tombstone   TEXT NOT NULL,
    PRIMARY KEY (tenant, instance_id)
);
