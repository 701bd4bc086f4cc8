//! A password that changes while the load runs: an access token that somebody renews.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An access token, used as the password. Whoever renews it calls [`Token::renew`]; every
/// connection then tells its broker (`connection.update-secret`), and new ones log in with it.
/// `Debug` does not show it.
#[derive(Clone)]
pub struct Token(Arc<Shared>);

struct Shared {
    text: Mutex<String>,
    /// Raised with every renewal, so that looking costs no lock.
    version: AtomicU64,
}

impl Token {
    /// The first token.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Shared {
            text: Mutex::new(text.into()),
            version: AtomicU64::new(0),
        }))
    }

    /// Replaces it, on all connections.
    pub fn renew(&self, text: impl Into<String>) {
        let mut place = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        *place = text.into();
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// The present one.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }

    /// How often it was renewed.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}
