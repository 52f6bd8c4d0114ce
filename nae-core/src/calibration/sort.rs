//! Heapsort, which needs no memory and links no panic. The sorts of `core` check that the order is total, and panic if it
//! is not: a device that calibrates itself would contain that panic.

/// Sorts by [`f32::total_cmp`], in at most about 2·n·log₂ n comparisons. Equal values have equal bits, so that every sort by
/// this order gives the same result.
pub(super) fn sort(values: &mut [f32]) {
    for root in (0..values.len() / 2).rev() {
        sink(values, root);
    }
    let mut heap = values;
    // The largest value of the heap moves to its end, which is not part of the heap from then on.
    while let [first, .., last] = heap {
        core::mem::swap(first, last);
        let [rest @ .., _] = heap else { return };
        heap = rest;
        sink(heap, 0);
    }
}

/// Moves the value at `place` down until no value below it is larger. The values below that are a heap: none is larger
/// than the one above it.
fn sink(heap: &mut [f32], mut place: usize) {
    loop {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        let (Some(&value), Some(&first)) = (heap.get(place), heap.get(left)) else { return };
        let (below, largest) = match heap.get(right) {
            Some(second) if second.total_cmp(&first).is_gt() => (right, *second),
            _ => (left, first),
        };
        if largest.total_cmp(&value).is_le() {
            return;
        }
        for (at, value) in [(place, largest), (below, value)] {
            if let Some(target) = heap.get_mut(at) {
                *target = value;
            }
        }
        place = below;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::sort;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Few values, of which many are equal, and any values at all.
        #[test]
        fn the_order_is_that_of_the_standard_library(
            few in prop::collection::vec(prop::sample::select([-1.5f32, -0.0, 0.0, 1e-40, 2.0].as_slice()), 0..40),
            any in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..400),
        ) {
            for mut values in [few, any] {
                let mut expected = values.clone();
                expected.sort_by(f32::total_cmp);
                sort(&mut values);
                prop_assert_eq!(bits(&values), bits(&expected));
            }
        }
    }
}
