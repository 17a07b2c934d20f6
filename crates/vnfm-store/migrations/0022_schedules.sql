-- Operations that begin at an interval; at most one schedule for each instance. `request` is sealed; `running` is 1 until the last
-- operation is known to have ended.
CREATE TABLE schedules (
    instance_id TEXT PRIMARY KEY,
    tenant      TEXT NOT NULL,
    version     BIGINT NOT NULL,
    next_ms     BIGINT NOT NULL,
    running     INTEGER NOT NULL,
    info        TEXT NOT NULL,
    request     TEXT
);
CREATE INDEX schedules_by_time ON schedules (next_ms);
CREATE INDEX schedules_running ON schedules (running) WHERE running = 1;
