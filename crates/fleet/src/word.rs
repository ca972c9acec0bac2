//! Values that are written in exactly one way: read strictly, printed as read. Knows no value by name.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A text that is none of the exact forms. It does not repeat the text: that may be a stranger's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What was looked for.
    pub expected: &'static str,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {} in its exact form", self.expected)
    }
}

impl std::error::Error for Unknown {}

/// Read a text by its one strict reader.
pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = Unknown>,
{
    struct Exact<T>(PhantomData<T>);

    impl<T: FromStr<Err = Unknown>> Visitor<'_> for Exact<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an exact word")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Exact(PhantomData))
}

/// A number as it is printed: digits only, none before the first that counts, at most `longest` of them.
pub(crate) fn number<T: FromStr>(text: &str, longest: usize) -> Option<T> {
    let plain = !text.is_empty() && text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if plain && canonical { text.parse().ok() } else { None }
}

/// What a report may say in one field: this type, or nothing.
pub(crate) trait Admitted: Sized {
    /// The value that a text stands for.
    fn from_text(_: &str) -> Option<Self> {
        None
    }

    /// The value that a number stands for.
    fn from_number(_: u64) -> Option<Self> {
        None
    }

    /// The value that a map stands for; the whole map is read.
    fn from_map<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<Option<Self>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// serde and [`Admitted`] for a type that has `FromStr` and `Display` as exact opposites.
macro_rules! exact_text {
    ($Name:ident) => {
        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::word::deserialize(deserializer)
            }
        }

        impl crate::word::Admitted for $Name {
            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    };
}
pub(crate) use exact_text;

/// An enum whose variants each have one word, in one list: order, parsing, printing and serde follow from it.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident, $expected:literal {
            $($(#[$variant_meta:meta])* $Variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Name {
            $($(#[$variant_meta])* $Variant,)+
        }

        impl $Name {
            /// Every one, in order.
            #[allow(dead_code, reason = "a list that only this crate sees may be walked by its tests alone")]
            pub const ALL: [$Name; [$($word),+].len()] = [$($Name::$Variant),+];

            /// Its one word.
            pub const fn word(self) -> &'static str {
                match self {
                    $($Name::$Variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = crate::word::Unknown;

            /// The exact word only: no other case, no spaces, no other spelling.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok($Name::$Variant),)+
                    _ => Err(crate::word::Unknown { expected: $expected }),
                }
            }
        }

        crate::word::exact_text!($Name);
    };
}
pub(crate) use words;

/// A field of a report: what matches, or nothing, whatever stands there.
pub(crate) struct Kept<T>(pub(crate) Option<T>);

impl<'de, T: Admitted> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keeping<T>(PhantomData<T>);

        impl<'de, T: Admitted> Visitor<'de> for Keeping<T> {
            type Value = Kept<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Kept<T>, E> {
                Ok(Kept(T::from_text(text)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Kept<T>, E> {
                Ok(Kept(T::from_number(number)))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Kept<T>, E> {
                Ok(Kept(None))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Kept<T>, E> {
                Ok(Kept(None))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Kept<T>, E> {
                Ok(Kept(None))
            }

            fn visit_unit<E: Error>(self) -> Result<Kept<T>, E> {
                Ok(Kept(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kept<T>, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Kept(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Kept<T>, A::Error> {
                T::from_map(&mut entries).map(Kept)
            }
        }

        deserializer.deserialize_any(Keeping(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        assert_eq!(number::<u32>("0", 3), Some(0));
        assert_eq!(number::<u32>("26200", 6), Some(26200));
        assert_eq!(number::<u8>("256", 3), None);
        for other in ["", "00", "01", "+1", "-1", " 1", "1 ", "1234", "1a", "١"] {
            assert_eq!(number::<u32>(other, 3), None, "{other:?}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_the_text() {
        let error = "<script>".parse::<crate::Tier>().unwrap_err();
        assert_eq!(error.to_string(), "not a tier in its exact form");
    }
}
