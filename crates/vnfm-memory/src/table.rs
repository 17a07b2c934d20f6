//! Rows by key. What a transaction changes is remembered until it is kept, or put back.
//!
//! A row is shared: it can be read once the lock is gone, and what is no more is freed then.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

/// What stood at each key that was changed, in order.
pub(crate) type Before<K, V> = Vec<(K, Option<Arc<V>>)>;

/// Rows by key.
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

    /// A row for whoever reads it once the lock is gone.
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

    /// Writes a row, whether or not there is one.
    pub(crate) fn put(&mut self, key: K, row: V) {
        let row = Arc::new(row);
        let before = match self.rows.get_mut(&key) {
            Some(known) => Some(std::mem::replace(known, row)),
            None => self.rows.insert(key.clone(), row),
        };
        self.before.push((key, before));
    }

    /// Changes a row; false where there is none.
    pub(crate) fn change(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some(known) = self.rows.get_mut(key) else {
            return false;
        };
        self.before.push((key.clone(), Some(known.clone())));
        change(Arc::make_mut(known));
        true
    }

    /// Removes a row; false where there is none.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let Some((key, before)) = self.rows.remove_entry(key) else {
            return false;
        };
        self.before.push((key, Some(before)));
        true
    }

    /// Removes all rows that are so.
    pub(crate) fn remove_if(&mut self, is_so: impl Fn(&K, &V) -> bool) {
        let gone = self.rows.extract_if(.., |key, row| is_so(key, row));
        self.before.extend(gone.map(|(key, row)| (key, Some(row))));
    }

    /// Removes the rows from a key on as long as their keys are so.
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

    /// From now on this is how it is; what is no more is for the caller to drop, once the lock is gone.
    pub(crate) fn keep(&mut self) -> Before<K, V> {
        std::mem::take(&mut self.before)
    }

    /// Everything is as it was when it was last kept.
    pub(crate) fn put_back(&mut self) {
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
    fn what_is_not_kept_is_put_back() {
        let mut table = Table::default();
        table.put(1, "one");
        table.put(2, "two");
        assert_eq!(table.keep().len(), 2);
        table.put(1, "uno");
        table.put(1, "eins");
        table.remove(&2);
        table.put(3, "three");
        table.change(&3, |row| *row = "drei");
        table.remove_if(|key, _| *key == 1);
        table.remove_from(2, |key| *key < 4);
        assert_eq!(table.iter().count(), 0);
        table.put_back();
        assert_eq!(
            table.iter().collect::<Vec<_>>(),
            [(&1, &"one"), (&2, &"two")]
        );
        assert!(!table.change(&9, |_| ()) && !table.remove(&9));
    }
}
