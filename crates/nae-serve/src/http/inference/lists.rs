//! The lists in the JSON of a request, parsed without using much more memory or time than a valid request needs.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// The maximum number of entries of a list that does not contain numbers: more than any valid request has.
const FEW: usize = 8;
/// The maximum nesting of lists of data: images, channels, rows, columns.
const DEPTH: usize = 4;

/// A list of a few entries. A list that is too long is an error at once, since a parsed entry may take several times
/// the memory of its text.
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FewOf(PhantomData).deserialize(deserializer).map(Self)
    }
}

/// The same of entries that this seed parses.
pub(super) struct FewOf<S>(pub(super) S);

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for FewOf<S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for FewOf<S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut few = Vec::new();
        while let Some(item) = items.next_element_seed(self.0)? {
            if few.len() == FEW {
                return Err(Error::custom(format!("expected a list of at most {FEW}, found more")));
            }
            few.push(item);
        }
        Ok(few)
    }
}

/// The numbers of a list, or of the nested lists that the protocol also permits, or `None` for null. They are parsed
/// without an intermediate tree of values, which would take many times the memory. More than `most` are an error at
/// once: a compressed request of some kilobytes may have millions.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) most: usize,
}

impl<'de> DeserializeSeed<'de> for Numbers {
    type Value = Option<Vec<f32>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Numbers {
    type Value = Option<Vec<f32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers in lists")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let mut values = Vec::new();
        List { depth: DEPTH, most: self.most, values: &mut values }.deserialize(deserializer)?;
        Ok(Some(values))
    }
}

/// A list in which lists may be nested; `depth` includes the list itself.
struct List<'a> {
    depth: usize,
    most: usize,
    values: &'a mut Vec<f32>,
}

impl List<'_> {
    fn add<E: Error>(self, number: f32) -> Result<(), E> {
        if self.values.len() == self.most {
            return Err(E::custom(format!("expected at most {} numbers, found more", self.most)));
        }
        self.values.push(number);
        Ok(())
    }
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

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.add(number as f32)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.add(number as f32)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.add(number as f32)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { depth, most, values } = self;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Error::custom(format!("expected at most {DEPTH} lists in each other")));
        };
        while items.next_element_seed(List { depth, most, values: &mut *values })?.is_some() {}
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
        let of = |text: &str| {
            let mut text = serde_json::Deserializer::from_str(text);
            let numbers = Numbers { most: 3 }.deserialize(&mut text)?;
            text.end().map(|()| numbers)
        };
        assert_eq!(of("[1, -2, 2.5e1]").unwrap().unwrap(), [1.0, -2.0, 25.0]);
        assert_eq!(of("[[[[1], [2]]], 3]").unwrap().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(of("null").unwrap(), None);
        for wrong in ["[1,2,3,4]", "[[1,2],[3,4]]", "[1,2,3,4.5", "[1,2,3,-4"] {
            assert!(of(wrong).unwrap_err().to_string().contains("at most 3 numbers, found more"), "{wrong}");
        }
        for wrong in ["[[[[[1]]]]]", "[null]", "[true]", "[\"1\"]", "[{}]", "{}", "[1,]"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
