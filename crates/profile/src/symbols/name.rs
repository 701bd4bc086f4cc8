//! Names as people write them.

use std::fmt::{self, Write as _};

use cpp_demangle::{DemangleOptions, Symbol};

/// Longer names are left as they are: 300 bytes of a template can unfold to gigabytes.
const LONGEST: usize = 4096;

/// A text that takes no more than [`LONGEST`] bytes.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

fn demangle_rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut text = Bounded::default();
    write!(text, "{name:#}").ok().map(|()| text.0)
}

fn demangle_cpp(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") || symbol.len() > LONGEST {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut text = Bounded::default();
    let written = Symbol::new(symbol)
        .ok()?
        .structured_demangle(&mut text, &options);
    written.ok().map(|()| text.0)
}

/// The name of a symbol: Rust's and C++'s demangled, without hashes and argument lists; any other
/// as it is. Versions (`memcpy@@GLIBC_2.14`) are cut off.
pub(crate) fn demangle(symbol: &str) -> String {
    // A place near a function, whose name was written out already.
    if symbol.starts_with('[') {
        return symbol.to_owned();
    }
    if let Some(name) = demangle_rust(symbol).or_else(|| demangle_cpp(symbol)) {
        return name;
    }
    match symbol.split_once('@') {
        // `getenv@plt` is not `getenv`.
        Some((name, version)) if !name.is_empty() && version != "plt" => name.to_owned(),
        _ => symbol.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_people_write_them() {
        for (symbol, name) in [
            (
                "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
                "core::ptr::drop_in_place",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN9CodeCache9find_blobEPv", "CodeCache::find_blob"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("pthread_getspecific@GLIBC_2.2.5", "pthread_getspecific"),
            ("getenv@plt", "getenv@plt"),
            ("[near getenv@plt+0x40]", "[near getenv@plt+0x40]"),
            ("$rabbit_exchange:route/2", "$rabbit_exchange:route/2"),
            ("_Zgarbage", "_Zgarbage"),
            ("@@", "@@"),
            ("", ""),
        ] {
            assert_eq!(demangle(symbol), name);
        }
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays_as_it_is() {
        // Each argument of `f` is an `A` of eight times the one before.
        let levels = (1..10).map(|n| format!("S0_I{}E", format!("S{n}_").repeat(8)));
        let symbol = format!("_Z1fI1AIiiiiiiiiE{}Evv", levels.collect::<String>());
        assert!(Symbol::new(&symbol).is_ok());
        let begun = std::time::Instant::now();
        assert_eq!(demangle(&symbol), symbol);
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }
}
