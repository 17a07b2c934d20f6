-- What an instance should be, sealed, in place of the request that instantiated it; what it should be before and after
-- an operation; how an operation is driven; the state of a hook. `needs_levels`: the instance was made before scale
-- levels were recorded, and its VNFD has yet to tell them. The rows are converted by `upgrade.rs`, which has the keys.
ALTER TABLE instances ADD COLUMN deployment TEXT;
ALTER TABLE instances ADD COLUMN needs_levels INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ops ADD COLUMN before TEXT;
ALTER TABLE ops ADD COLUMN target TEXT;
ALTER TABLE ops ADD COLUMN control TEXT;
ALTER TABLE journal ADD COLUMN hook TEXT;
CREATE INDEX instances_need_levels ON instances (tenant, id) WHERE needs_levels = 1;
