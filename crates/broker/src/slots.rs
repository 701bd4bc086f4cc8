//! Things with stable keys that are never mistaken for their successors.

/// Names one thing in a [`Slots`], and nothing else ever again; by default none at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The position among the slots, unique among the things that live at the same time.
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A growing array whose freed places are used again under new keys.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Stores what `make` builds from its own key.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 1, value: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let key = Key { index, generation: slot.generation };
        slot.value = Some(make(key));
        key
    }

    /// Stores a value.
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.insert_with(|_| value)
    }

    /// The thing of this key, while it is there.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index())?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    /// The thing of this key, while it is there.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    /// Takes a thing out; its key is void from now on.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Everything with its key.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let value = slot.value.as_mut()?;
            Some((Key { index: index as u32, generation: slot.generation }, value))
        })
    }

    /// How many things there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_names_its_successor() {
        let mut slots = Slots::default();
        let a = slots.insert("a");
        let b = slots.insert("b");
        assert_eq!(slots.remove(a), Some("a"));
        let c = slots.insert("c");
        assert_eq!(c.index(), a.index(), "the place is used again");
        assert_eq!((slots.get(a), slots.get(c)), (None, Some(&"c")));
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.get(b), Some(&"b"));
        assert_eq!(slots.len(), 2);
    }
}
