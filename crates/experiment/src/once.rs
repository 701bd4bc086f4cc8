//! A value that is computed once per specification.

use std::sync::{Arc, OnceLock};

/// A value that is made when it is first requested. Copies share it, also those made before; it takes no
/// part in comparisons.
#[derive(Debug)]
pub(super) struct Once<T>(Arc<OnceLock<Arc<T>>>);

impl<T> Once<T> {
    /// The value, which `make` makes the first time.
    pub(super) fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        if let Some(made) = self.0.get() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(self.0.get_or_init(|| made)))
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Once<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
