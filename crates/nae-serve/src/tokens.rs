//! The tokens of the service, and what each permits.

use subtle::ConstantTimeEq as _;

use super::secret::Secret;

/// What a token permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Viewing cameras, their pictures and their alarms.
    Look,
    /// Scoring images, without access to the cameras.
    Score,
    /// Everything, including thresholds, calibration and models.
    Operate,
}

impl Role {
    /// Whether this role includes `needed`.
    pub(crate) fn may(self, needed: Self) -> bool {
        self == needed || self == Self::Operate
    }
}

/// The tokens with their roles; empty if everyone on this machine may do everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tokens(Vec<(Role, Secret)>);

impl Tokens {
    /// Stores the tokens, which must all differ.
    pub(crate) fn new(tokens: Vec<(Role, Secret)>) -> Self {
        Self(tokens)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The role of a token. The time taken does not depend on how much of a guess is right.
    pub(crate) fn role(&self, given: &str) -> Option<Role> {
        let mut found = None;
        for (role, token) in &self.0 {
            if given.as_bytes().ct_eq(token.expose().as_bytes()).into() {
                found = Some(*role);
            }
        }
        found
    }
}
