//! Names as people write them.

use cpp_demangle::{DemangleOptions, Symbol};

/// Longer C++ names are left as they are: templates can unfold to megabytes.
const LONGEST: usize = 4096;

/// The name of a symbol: Rust's and C++'s demangled, without hashes and argument lists; any other
/// as it is. Versions (`memcpy@@GLIBC_2.14`) are cut off.
pub(crate) fn demangle(symbol: &str) -> String {
    // A place near a function, whose name was written out already.
    if symbol.starts_with('[') {
        return symbol.to_owned();
    }
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return format!("{name:#}");
    }
    if symbol.starts_with("_Z") && symbol.len() <= LONGEST {
        let options = DemangleOptions::new().no_params().no_return_type();
        if let Ok(name) = Symbol::new(symbol).map_err(drop).and_then(|name| {
            let mut text = String::new();
            name.structured_demangle(&mut text, &options)
                .map_err(drop)?;
            Ok(text)
        }) && name.len() <= LONGEST
        {
            return name;
        }
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
}
