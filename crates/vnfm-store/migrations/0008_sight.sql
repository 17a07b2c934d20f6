-- The namespace that an instance's instantiation names, and what of the tenant's whoever made a subscription sees: JSON,
-- absent where that is everything.
ALTER TABLE uses ADD COLUMN namespace TEXT;
ALTER TABLE subscriptions ADD COLUMN sight TEXT;
