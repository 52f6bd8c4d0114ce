//! The regions of a camera after checking, and their parsing from JSON. The rules for a polygon are in `polygon`.

use serde::{Deserialize, Serialize};

use super::polygon::Polygon;

/// The maximum number of regions of a camera.
const MOST: usize = 32;
/// The maximum number of characters of a name.
const NAME: usize = 64;

/// The effect of a region on the pixels in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// The model sees them; if there is such a region, it sees no pixels outside of all of them.
    Include,
    /// The model does not see them, even if they are in an included region.
    Ignore,
}

/// A region as a user gives it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    kind: Kind,
    #[serde(default)]
    name: Option<String>,
    vertices: Vec<[f64; 2]>,
}

/// A region after checking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Region {
    pub(super) kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "vertices")]
    pub(super) polygon: Polygon,
}

/// The regions of a camera; empty if its model sees the whole frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Regions(Vec<Region>);

impl Regions {
    /// Checks the given regions.
    ///
    /// # Errors
    /// The region, what is wrong with it, and how to correct it.
    pub(crate) fn new(wanted: Vec<Wanted>) -> Result<Self, String> {
        if wanted.len() > MOST {
            return Err(format!("expected at most {MOST} regions, found {}", wanted.len()));
        }
        let checked = (1..).zip(wanted).map(|(number, wanted)| {
            let called = match &wanted.name {
                Some(name) if is_name(name) => format!("region {number} (`{name}`)"),
                _ => format!("region {number}"),
            };
            region(wanted).map_err(|problem| format!("{called}: {problem}"))
        });
        checked.collect::<Result<_, _>>().map(Self)
    }

    /// Parses and checks regions in JSON.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), or a description of what is not a region.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let wanted = serde_json::from_str(text).map_err(|error| {
            format!(
                "expected regions such as {{\"kind\": \"ignore\", \"vertices\": [[0, 0], [1, 0], [1, 0.2], [0, 0.2]]}}, each with the \
                 kind `include` or `ignore`: {error}"
            )
        });
        Self::new(wanted?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Polygon> {
        self.0.iter().filter(move |region| region.kind == kind).map(|region| &region.polygon)
    }

    /// A digest that is equal for regions with the same effect; it does not depend on their names.
    pub(crate) fn digest(&self) -> String {
        let seen: Vec<_> = self.0.iter().map(|region| (region.kind, &region.polygon)).collect();
        // Cannot fail: regions consist of words and finite numbers.
        format!("{:08x}", crc32fast::hash(&serde_json::to_vec(&seen).unwrap_or_default()))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= NAME && !name.chars().any(char::is_control)
}

fn region(Wanted { kind, name, vertices }: Wanted) -> Result<Region, String> {
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(format!("`name`: expected 1 to {NAME} characters without control characters, or none"));
    }
    Ok(Region { kind, name, polygon: Polygon::new(&vertices)? })
}
