-- Who is told of lifecycle changes, and how far.
CREATE TABLE subscriptions (
    tenant         TEXT NOT NULL,
    id             TEXT NOT NULL,
    callback       TEXT NOT NULL,
    subscription   TEXT NOT NULL,
    authentication TEXT,
    root           TEXT NOT NULL,
    sent           BIGINT NOT NULL,
    lost           BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX subscriptions_by_callback ON subscriptions (tenant, callback, id);

-- What subscriptions choose by of the instance, as it was then.
ALTER TABLE outbox ADD COLUMN about TEXT NOT NULL DEFAULT '{}';
