//! Values that are one of a few words, each with the word that cases and plans have for it.

/// A value that is one of a few words.
pub trait Choice: Copy + PartialEq + 'static {
    /// All of them, each with its word.
    const ALL: &'static [(&'static str, Self)];

    /// Its word.
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
