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

/// The name of code of a JVM: class and method, without types and what differs from run to run. HotSpot writes
/// `int java.lang.String.indexOf(int, int)`, agents `Ljava/lang/String;::indexOf` or `java.lang.String::indexOf`. All that
/// is interpreted has one name.
pub(crate) fn java(name: &str) -> String {
    if name == "Interpreter" {
        return "[interpreted]".to_owned();
    }
    // Stubs and adapters are written in words: `StubRoutines (1)`.
    let method = match name.split_once('(') {
        Some((_, rest)) if !rest.contains(')') => return name.to_owned(),
        Some((method, _)) if method.ends_with([' ', ')']) || method.is_empty() => {
            return name.to_owned();
        }
        Some((method, _)) => method.rsplit(' ').next().unwrap_or(method),
        None => name,
    };
    let Some((class, method)) = method.rsplit_once("::") else {
        return without_numbers(method);
    };
    let inner = class.strip_prefix('L').and_then(|it| it.strip_suffix(';'));
    let class = inner.map_or_else(|| class.to_owned(), |path| path.replace('/', "."));
    without_numbers(&format!("{class}.{method}"))
}

/// Without the number of a lambda and the address of a hidden class: `A$$Lambda$14/0x0000000800c03000.run`.
fn without_numbers(name: &str) -> String {
    const LAMBDA: &str = "$$Lambda$";
    let mut text = name.to_owned();
    for (begin, radix) in [(LAMBDA, 10), ("/0x", 16), ("+0x", 16)] {
        if let Some(at) = text.find(begin) {
            let rest = text.get(at + begin.len()..).unwrap_or_default();
            let rest = rest
                .trim_start_matches(|it: char| it.is_digit(radix))
                .to_owned();
            let kept = if begin == LAMBDA {
                at + LAMBDA.len() - 1
            } else {
                at
            };
            text.truncate(kept);
            text.push_str(&rest);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_methods_have_one_name_whoever_wrote_it() {
        for (written, name) in [
            (
                "java.lang.Object java.util.HashMap.get(java.lang.Object)",
                "java.util.HashMap.get",
            ),
            ("void Known$Inner.<init>()", "Known$Inner.<init>"),
            ("long[] a.b.c(int[], java.lang.String[][])", "a.b.c"),
            ("Ljava/util/HashMap;::get", "java.util.HashMap.get"),
            (
                "java.util.HashMap::get(Ljava/lang/Object;)Ljava/lang/Object;",
                "java.util.HashMap.get",
            ),
            (
                "void Known$$Lambda$14/0x0000000800c03000.run()",
                "Known$$Lambda.run",
            ),
            (
                "void Known$$Lambda/0x00007f0001003000.run()",
                "Known$$Lambda.run",
            ),
            (
                "void java.lang.invoke.LambdaForm$MH+0x0000000800c03000.invoke(int)",
                "java.lang.invoke.LambdaForm$MH.invoke",
            ),
            ("Interpreter", "[interpreted]"),
            ("StubRoutines (1)", "StubRoutines (1)"),
            ("I2C/C2I adapters", "I2C/C2I adapters"),
            ("vtable chunks", "vtable chunks"),
            ("jlong_disjoint_arraycopy", "jlong_disjoint_arraycopy"),
            ("void broken(", "void broken("),
            ("()", "()"),
            ("$$Lambda$", "$$Lambda"),
            ("", ""),
        ] {
            assert_eq!(java(written), name, "{written}");
        }
    }

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
