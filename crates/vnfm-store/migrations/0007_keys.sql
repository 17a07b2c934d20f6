-- The keys that seal secrets and do not lie in the key file: who keeps each, and under which id. The one that `seals`
-- is 1 of seals what is new; where there is none, the first key of the file does.
CREATE TABLE sealing_keys (
    fingerprint TEXT PRIMARY KEY,
    key_type    TEXT NOT NULL,
    secret_uuid TEXT NOT NULL,
    seals       BIGINT NOT NULL
);
