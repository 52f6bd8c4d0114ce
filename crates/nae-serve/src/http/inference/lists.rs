//! The lists in the JSON of a request, parsed without using much more memory than their content needs.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// The maximum number of entries of a list that does not contain numbers: more than any valid request has.
const FEW: usize = 8;
/// The maximum nesting of lists of data: images, channels, rows, columns.
const DEPTH: usize = 4;

/// A list of a few entries. A list that is too long is an error at once, since a parsed entry may take several times
/// the memory of its text.
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FewVisitor(PhantomData))
    }
}

struct FewVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
    type Value = Few<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Few<T>, A::Error> {
        let mut few = Vec::new();
        while let Some(item) = items.next_element()? {
            if few.len() == FEW {
                return Err(serde::de::Error::custom(format!("expected a list of at most {FEW}, found more")));
            }
            few.push(item);
        }
        Ok(Few(few))
    }
}

/// The numbers of a list, or of the nested lists that the protocol also permits. They are parsed without an
/// intermediate tree of values, which would take many times the memory.
pub(super) struct Numbers(pub(super) Vec<f32>);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut values = Vec::new();
        List { depth: DEPTH, values: &mut values }.deserialize(deserializer)?;
        Ok(Self(values))
    }
}

/// A list in which lists may be nested; `depth` includes the list itself.
struct List<'a> {
    depth: usize,
    values: &'a mut Vec<f32>,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.depth > 0 { "numbers in lists" } else { "a number" })
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.values.push(number as f32);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.values.push(number as f32);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.values.push(number as f32);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(serde::de::Error::custom(format!("expected at most {DEPTH} lists in each other")));
        };
        while items.next_element_seed(List { depth, values: &mut *self.values })?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lists_end_where_they_may() {
        let of = |count: usize| serde_json::from_str::<Few<u8>>(&serde_json::to_string(&vec![1; count]).unwrap());
        assert_eq!((of(0).unwrap().0.len(), of(FEW).unwrap().0.len()), (0, FEW));
        assert!(of(FEW + 1).err().unwrap().to_string().contains("at most 8, found more"));
    }

    #[test]
    fn numbers_are_read_from_any_nesting_within_the_depth() {
        let of = |text: &str| serde_json::from_str::<Numbers>(text).map(|numbers| numbers.0);
        assert_eq!(of("[1, -2, 2.5e1]").unwrap(), [1.0, -2.0, 25.0]);
        assert_eq!(of("[[[[1], [2]]], 3]").unwrap(), [1.0, 2.0, 3.0]);
        for wrong in ["[[[[[1]]]]]", "[null]", "[true]", "[\"1\"]", "[{}]", "{}", "[1,]"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
