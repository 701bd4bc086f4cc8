//! Enums whose values have names, each declared in one place.

/// Declares an enum with the name of each of its values behind it: `ALL` of them in their order, and `name()`.
#[macro_export]
macro_rules! named {
    ($(#[$of:meta])* $visible:vis enum $kind:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$of])*
        $visible enum $kind { $($(#[$doc])* $value,)+ }

        impl $kind {
            /// All of them, in their order.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Name for people.
            #[must_use]
            $visible const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }
    };
}
