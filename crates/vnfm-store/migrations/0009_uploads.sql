-- Where the content of a package is being fetched from, and how to log in there: sealed, and gone once it has ended.
ALTER TABLE packages ADD COLUMN fetching TEXT;
