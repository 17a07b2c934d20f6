//! Rows by key. What a transaction changes is remembered until it is kept, or put back.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::RangeBounds;

/// Rows by key.
pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// What stood at each key that was changed, in order.
    before: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), before: Vec::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(crate) fn iter(&self) -> btree_map::Iter<'_, K, V> {
        self.rows.iter()
    }

    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> btree_map::Range<'_, K, V> {
        self.rows.range(range)
    }

    /// Writes a row, whether or not there is one.
    pub(crate) fn put(&mut self, key: K, row: V) {
        let before = self.rows.insert(key.clone(), row);
        self.before.push((key, before));
    }

    /// Changes a row; false where there is none.
    pub(crate) fn change(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some(mut row) = self.rows.get(key).cloned() else { return false };
        change(&mut row);
        self.put(key.clone(), row);
        true
    }

    /// Removes a row; false where there is none.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let Some(before) = self.rows.remove(key) else { return false };
        self.before.push((key.clone(), Some(before)));
        true
    }

    /// Removes all rows that are so.
    pub(crate) fn remove_if(&mut self, is_so: impl Fn(&K, &V) -> bool) {
        let so = self.rows.iter().filter(|(key, row)| is_so(key, row));
        let keys: Vec<_> = so.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Removes the rows from a key on as long as their keys are so.
    pub(crate) fn remove_from(&mut self, first: K, is_so: impl Fn(&K) -> bool) {
        let so = self.rows.range(first..).map(|(key, _)| key).take_while(|key| is_so(key));
        let keys: Vec<_> = so.cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// From now on this is how it is.
    pub(crate) fn keep(&mut self) {
        self.before.clear();
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
        table.keep();
        table.put(1, "uno");
        table.put(1, "eins");
        table.remove(&2);
        table.put(3, "three");
        table.change(&3, |row| *row = "drei");
        table.remove_if(|key, _| *key == 1);
        table.remove_from(2, |key| *key < 4);
        assert_eq!(table.iter().count(), 0);
        table.put_back();
        assert_eq!(table.iter().collect::<Vec<_>>(), [(&1, &"one"), (&2, &"two")]);
        assert!(!table.change(&9, |_| ()) && !table.remove(&9));
    }
}
