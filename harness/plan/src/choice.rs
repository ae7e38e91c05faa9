/// An enum whose values are written as keywords in cases and plans.
pub trait Choice: Copy + PartialEq + 'static {
    /// All values, each with its keyword.
    const ALL: &'static [(&'static str, Self)];

    /// Returns the keyword for the value.
    fn word(self) -> &'static str;
}

macro_rules! choices {
    ($($type:ident { $($variant:ident $word:literal)* })*) => { $(
        impl $crate::Choice for $type {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, $type::$variant)),*];

            fn word(self) -> &'static str {
                match self { $($type::$variant => $word),* }
            }
        }
    )* };
}

pub(crate) use choices;
