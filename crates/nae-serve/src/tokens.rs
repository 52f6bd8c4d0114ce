//! The tokens of the service, and what whoever sends one may do.

use subtle::ConstantTimeEq as _;

use super::secret::Secret;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// To see cameras, their pictures and their alarms.
    Look,
    /// To have images scored, and see nothing of the cameras.
    Score,
    /// Everything: thresholds, calibration and models, too.
    Operate,
}

impl Role {
    /// Whether it may do what is for `needed`.
    pub(crate) fn may(self, needed: Self) -> bool {
        self == needed || self == Self::Operate
    }
}

/// Each with its role; none where everyone on this machine may do everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tokens(Vec<(Role, Secret)>);

impl Tokens {
    /// These. No two are alike.
    pub(crate) fn new(tokens: Vec<(Role, Secret)>) -> Self {
        Self(tokens)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The role of a token. How long that takes does not depend on how much of one was guessed.
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
