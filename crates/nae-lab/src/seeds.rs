//! The seeds of an experiment: a number of seeds, or a list, so that several machines can share
//! them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The maximum number of seeds; more are a mistake.
const MOST: usize = 1000;

/// At least one seed, without repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<u64>);

/// A text that does not define seeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a number of seeds, 1 to {MOST}, or the seeds themselves with commas, such as 3,7,11, or 7, for the seed 7 \
     alone; {0}"
)]
pub struct SeedsError(String);

/// The seeds 0 to 2.
impl Default for Seeds {
    fn default() -> Self {
        Self(vec![0, 1, 2])
    }
}

impl Seeds {
    /// The seeds 0 to `count` − 1.
    ///
    /// # Errors
    /// [`SeedsError`] if `count` is 0 or more than a thousand.
    pub fn first(count: usize) -> Result<Self, SeedsError> {
        Self::list((0..count as u64).collect())
    }

    /// The given seeds.
    ///
    /// # Errors
    /// [`SeedsError`] if there are none, one is repeated, or there are more than a thousand.
    pub fn list(seeds: Vec<u64>) -> Result<Self, SeedsError> {
        if seeds.is_empty() || seeds.len() > MOST {
            return Err(SeedsError(format!("found {}", seeds.len())));
        }
        let mut seen = BTreeSet::new();
        match seeds.iter().find(|seed| !seen.insert(**seed)) {
            Some(twice) => Err(SeedsError(format!("{twice} is there twice"))),
            None => Ok(Self(seeds)),
        }
    }

    /// Iterates over the seeds in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    /// The number of seeds.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `seed` is one of them.
    pub fn contains(&self, seed: u64) -> bool {
        self.0.contains(&seed)
    }
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Self, SeedsError> {
        let unread = |part: &str| SeedsError(format!("found {part:?}"));
        if !text.contains(',') {
            return Self::first(text.trim().parse().map_err(|_| unread(text))?);
        }
        let parts = text.strip_suffix(',').unwrap_or(text).split(',');
        Self::list(parts.map(|part| part.trim().parse().map_err(|_| unread(part))).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&seeds.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_and_a_list_names() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("3"), Ok(vec![0, 1, 2]));
        assert_eq!(seeds("3,7,11"), Ok(vec![3, 7, 11]));
        assert_eq!(seeds("11, 3"), Ok(vec![11, 3]));
        assert_eq!(seeds("7,"), Ok(vec![7]));
        for (text, said) in
            [("0", "found 0"), ("1001", "found 1001"), ("3,x", "\"x\""), ("3,7,3", "3 is there twice"), (",", "\"\"")]
        {
            let message = seeds(text).expect_err(text).to_string();
            assert!(message.contains(said), "{text}: {message}");
        }
    }
}
