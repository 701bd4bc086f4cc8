//! Names of Java methods.

/// The name of code of a JVM: class and method, without types and what differs from run to run. HotSpot writes
/// `int java.lang.String.indexOf(int, int)`, agents `Ljava/lang/String;::indexOf` or `java.lang.String::indexOf`. All that
/// is interpreted has one name.
#[must_use]
pub fn java_method(name: &str) -> String {
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
            let rest = rest.trim_start_matches(|it: char| it.is_digit(radix));
            // The flight recorder writes a number of the class: `A$$Lambda$14.360062456.run`.
            let number = rest.trim_start_matches(['.', '/']);
            let behind = number.trim_start_matches(|it: char| it.is_ascii_digit());
            let is_number =
                behind.len() < number.len() && matches!(behind.get(..1), None | Some("."));
            let rest = if is_number { behind } else { rest }.to_owned();
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
            ("Known$$Lambda$14.360062456.run", "Known$$Lambda.run"),
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
            assert_eq!(java_method(written), name, "{written}");
        }
    }
}
