//! A hash map that is walked in the order of its slots, as PyTorch's own maps are.
//!
//! The order in which queues of events and released pools are visited decides which blocks merge first and what a
//! trace says, so it has to be the same: slots by the golden ratio, robin-hood insertion, backward-shift deletion,
//! and growth that puts the old slots back in their order.

const GOLDEN_RATIO: u64 = 11_400_714_819_323_198_485;
const MIN_LOOKUPS: u32 = 4;
/// PyTorch's map would take all memory for keys of one hash. This one lets chains grow instead, once so many slots are
/// empty for each that is not.
const SPARSE: usize = 64;
const NEVER_SPARSE: usize = 1024;

#[derive(Clone, Debug)]
struct Slot<K, V> {
    /// How far it is from where its hash belongs.
    distance: u32,
    hash: u64,
    key: K,
    value: V,
}

/// Values by key; the hash of a key is passed in.
#[derive(Clone, Debug)]
pub(crate) struct SlotOrdered<K, V> {
    slots: Vec<Option<Slot<K, V>>>,
    /// A power of two, or zero.
    n_slots: usize,
    max_lookups: u32,
    shift: u32,
    len: usize,
}

impl<K, V> Default for SlotOrdered<K, V> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            n_slots: 0,
            max_lookups: MIN_LOOKUPS - 1,
            shift: 63,
            len: 0,
        }
    }
}

impl<K: Eq, V> SlotOrdered<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn home(&self, hash: u64) -> usize {
        (GOLDEN_RATIO.wrapping_mul(hash) >> self.shift) as usize
    }

    fn find(&self, hash: u64, key: &K) -> Option<usize> {
        if self.n_slots == 0 {
            return None;
        }
        let mut at = self.home(hash);
        let mut distance = 0;
        while let Some(Some(slot)) = self.slots.get(at)
            && slot.distance >= distance
        {
            if slot.key == *key {
                return Some(at);
            }
            at += 1;
            distance += 1;
        }
        None
    }

    pub(crate) fn get(&self, hash: u64, key: &K) -> Option<&V> {
        let at = self.find(hash, key)?;
        self.slots[at].as_ref().map(|slot| &slot.value)
    }

    /// The value of a key, made first when there is none.
    pub(crate) fn entry(&mut self, hash: u64, key: K, new: impl FnOnce() -> V) -> Option<&mut V> {
        let Some(at) = self.find(hash, &key) else {
            return self.insert_then_find(Slot {
                distance: 0,
                hash,
                key,
                value: new(),
            });
        };
        self.slots[at].as_mut().map(|slot| &mut slot.value)
    }

    fn insert_then_find(&mut self, slot: Slot<K, V>) -> Option<&mut V> {
        let home = self.insert_new(slot);
        self.slots
            .get_mut(home)?
            .as_mut()
            .map(|slot| &mut slot.value)
    }

    /// Puts in a slot whose key is new; where it lies afterwards.
    fn insert_new(&mut self, mut new: Slot<K, V>) -> usize {
        loop {
            let is_full = (self.len + 1) * 2 > self.n_slots;
            if self.n_slots == 0 || is_full {
                self.grow();
                continue;
            }
            let mut at = self.home(new.hash);
            new.distance = 0;
            while let Some(Some(slot)) = self.slots.get(at)
                && slot.distance >= new.distance
            {
                at += 1;
                new.distance += 1;
            }
            if new.distance == self.max_lookups {
                self.grow();
                continue;
            }
            let Some(pushed_out) = self.slots[at].replace(new) else {
                self.len += 1;
                return at;
            };
            match self.shift_from(at, pushed_out) {
                None => {
                    self.len += 1;
                    return at;
                }
                Some(left_over) => {
                    // The chain is too long: what is new waits, what was there goes back, and all is laid out anew.
                    let Some(back) = self.slots[at].replace(left_over) else {
                        return at;
                    };
                    self.grow();
                    new = back;
                }
            }
        }
    }

    /// Moves a slot that was pushed out onwards; what remains when a chain became too long.
    fn shift_from(&mut self, at: usize, mut moving: Slot<K, V>) -> Option<Slot<K, V>> {
        let mut at = at + 1;
        moving.distance += 1;
        loop {
            match self.slots.get_mut(at) {
                Some(place @ None) => {
                    *place = Some(moving);
                    return None;
                }
                Some(Some(slot)) if slot.distance < moving.distance => {
                    std::mem::swap(slot, &mut moving);
                    moving.distance += 1;
                }
                Some(Some(_)) => {
                    moving.distance += 1;
                    if moving.distance == self.max_lookups {
                        return Some(moving);
                    }
                }
                None => return Some(moving),
            }
            at += 1;
        }
    }

    fn grow(&mut self) {
        if self.n_slots >= NEVER_SPARSE && self.len * SPARSE < self.n_slots {
            self.max_lookups *= 2;
        } else {
            self.n_slots = (2 * self.n_slots).max(4);
            let bits = self.n_slots.trailing_zeros();
            self.shift = 64 - bits;
            self.max_lookups = self.max_lookups.max(MIN_LOOKUPS.max(bits));
        }
        self.len = 0;
        let empty = std::iter::repeat_with(|| None)
            .take(self.n_slots + self.max_lookups as usize)
            .collect();
        let old: Vec<Option<Slot<K, V>>> = std::mem::replace(&mut self.slots, empty);
        for slot in old.into_iter().flatten() {
            self.insert_new(slot);
        }
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        let at = self.find(hash, key)?;
        self.remove_at(at)
    }

    /// Takes a slot out; those behind it that are not at home move up, so that another may then lie at `at`.
    pub(crate) fn remove_at(&mut self, at: usize) -> Option<V> {
        let removed = self.slots.get_mut(at)?.take()?;
        self.len -= 1;
        let mut next = at + 1;
        while let Some(Some(slot)) = self.slots.get_mut(next)
            && slot.distance > 0
        {
            slot.distance -= 1;
            self.slots.swap(next - 1, next);
            next += 1;
        }
        Some(removed.value)
    }

    /// The first slot in use at or after `at`.
    pub(crate) fn next_from(&mut self, at: usize) -> Option<(usize, &K, &mut V)> {
        self.slots
            .iter_mut()
            .enumerate()
            .skip(at)
            .find_map(|(index, slot)| {
                slot.as_mut()
                    .map(|slot| (index, &slot.key, &mut slot.value))
            })
    }

    /// Keys and values by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots
            .iter()
            .flatten()
            .map(|slot| (&slot.key, &slot.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are put in, `-key` takes one out; what is left, by slot.
    fn check(steps: &[i64], expected: &[u64]) {
        let mut map = SlotOrdered::default();
        for step in steps {
            let key = step.unsigned_abs();
            if *step < 0 {
                map.remove(key, &key);
            } else {
                map.entry(key, key, || ());
            }
        }
        let found: Vec<u64> = map.iter().map(|(key, ())| *key).collect();
        assert_eq!(found, expected, "{steps:?}");
    }

    #[test]
    fn keys_lie_by_the_golden_ratio() {
        check(&[], &[]);
        check(&[1, 2], &[2, 1]);
        check(&[1, 2, 3], &[2, 1, 3]);
        check(&[1, 2, 3, -1], &[2, 3]);
        check(&[1, 1, 1], &[1]);
    }

    #[test]
    fn all_are_found_in_a_crowd() {
        let mut map = SlotOrdered::default();
        for key in 0..1000_u64 {
            *map.entry(key % 7, key, || 0).unwrap() += key;
        }
        for key in (0..1000).step_by(3) {
            assert_eq!(map.remove(key % 7, &key), Some(key));
        }
        for key in 0..1000 {
            let expected = (key % 3 != 0).then_some(&key);
            assert_eq!(map.get(key % 7, &key), expected);
        }
        assert_eq!(map.iter().count(), 666);
    }
}
