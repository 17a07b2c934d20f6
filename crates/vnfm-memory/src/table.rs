//! Rows by key. Old values are recorded until a transaction commits or rolls back.
//!
//! Rows are shared: a reader can use one after the lock is released, and removed ones are freed then.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

/// The old value of each changed key, in order.
pub(crate) type Before<K, V> = Vec<(K, Option<Arc<V>>)>;

/// Rows by key, and the old values of changed ones.
pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, Arc<V>>,
    before: Before<K, V>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            before: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key).map(|row| &**row)
    }

    /// A row for use after the lock is released.
    pub(crate) fn share(&self, key: &K) -> Option<Arc<V>> {
        self.rows.get(key).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter().map(|(key, row)| (key, &**row))
    }

    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        self.rows.range(range).map(|(key, row)| (key, &**row))
    }

    /// Inserts or replaces a row.
    pub(crate) fn put(&mut self, key: K, row: V) {
        let row = Arc::new(row);
        let before = match self.rows.get_mut(&key) {
            Some(known) => Some(std::mem::replace(known, row)),
            None => self.rows.insert(key.clone(), row),
        };
        self.before.push((key, before));
    }

    /// Changes a row; false if it does not exist.
    pub(crate) fn change(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some(known) = self.rows.get_mut(key) else {
            return false;
        };
        self.before.push((key.clone(), Some(known.clone())));
        change(Arc::make_mut(known));
        true
    }

    /// Removes a row; false if it does not exist.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let Some((key, before)) = self.rows.remove_entry(key) else {
            return false;
        };
        self.before.push((key, Some(before)));
        true
    }

    /// Removes all rows for which `is_so` holds.
    pub(crate) fn remove_if(&mut self, is_so: impl Fn(&K, &V) -> bool) {
        let removed = self.rows.extract_if(.., |key, row| is_so(key, row));
        self.before
            .extend(removed.map(|(key, row)| (key, Some(row))));
    }

    /// Removes rows from a key on, as long as their keys match.
    pub(crate) fn remove_from(&mut self, first: K, is_so: impl Fn(&K) -> bool) {
        let so = self
            .rows
            .range(first..)
            .map(|(key, _)| key)
            .take_while(|key| is_so(key));
        let keys: Vec<_> = so.cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Commits. The caller drops the returned old values after releasing the lock.
    pub(crate) fn commit(&mut self) -> Before<K, V> {
        std::mem::take(&mut self.before)
    }

    /// Rolls back to the last commit.
    pub(crate) fn roll_back(&mut self) {
        while let Some((key, before)) = self.before.pop() {
            match before {
                Some(row) => drop(self.rows.insert(key, row)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn uncommitted_changes_are_rolled_back() {
        let mut table = Table::default();
        table.put(1, "one");
        table.put(2, "two");
        assert_eq!(table.commit().len(), 2);
        table.put(1, "uno");
        table.put(1, "eins");
        table.remove(&2);
        table.put(3, "three");
        table.change(&3, |row| *row = "drei");
        table.remove_if(|key, _| *key == 1);
        table.remove_from(2, |key| *key < 4);
        assert_eq!(table.iter().count(), 0);
        table.roll_back();
        assert_eq!(
            table.iter().collect::<Vec<_>>(),
            [(&1, &"one"), (&2, &"two")]
        );
        assert!(!table.change(&9, |_| ()) && !table.remove(&9));
    }
}
