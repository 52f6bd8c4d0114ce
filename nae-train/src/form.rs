//! Chooses the form of a user's images if none is requested: whole, in tiles, or as features of a frozen network.
//!
//! [`best`] collects the possible forms and returns the one that a [`trial`] finds best. Images that lose no detail
//! when they are reduced stay whole without a trial.

use std::path::Path;
use std::time::Duration;

use burn::tensor::Device;
use nae_core::Shape;
use nae_data::counted;
use nae_data::own::{Corrupt, OwnImages, largest_side};
use nae_data::{DataError, Originals, detail_lost, originals};
use nae_input::tiling::Grid;
use nae_onnx::metadata::{Fit, Tiles, Transforms};

use crate::config::{Config, FeatureSettings};
use crate::engine::{EngineChoice, Unsupported};
use crate::plan::{self, PlanError};
use crate::trial::{self, Effort, Trial, TrialError, Verdict};

/// The largest number of images in a trial.
const IMAGES: usize = 400;
/// Images that lose a smaller share of their variance when reduced stay whole.
const DETAIL: f64 = 0.03;
/// The least improvement over whole images. Tiles need about a hundred forward passes for each image at run time,
/// features one of a larger network, and the results of trials vary by some hundredths.
const MARGIN_OF_TILES: f64 = 0.1;
const MARGIN_OF_FEATURES: f64 = 0.03;
/// With a mean AUROC below this, a form hardly detects the artificial defects, and the run's results will be poor.
const POOR: f64 = 0.7;
/// The tiles to choose from, as side and stride in pixels; the first with at most [`MOST_TILES`] for each image is
/// used.
const TILES: [(usize, usize); 4] = [(32, 16), (48, 24), (64, 32), (80, 80)];
/// The largest number of tiles of an image: each is a sample for training, and a forward pass at run time.
const MOST_TILES: usize = 200;
/// One image in so many may be too small for the tiles that are chosen, and is left out. Reading leaves out twice as many, those
/// that cannot be decoded among them.
const SMALLER: usize = 20;
/// The largest number of values of all tiles together; they take 1 GB.
const MOST_VALUES: usize = 1 << 28;
/// After fewer epochs, the autoencoder of a trial has hardly learnt.
const ENOUGH: usize = 3;
/// The share of the run's time that the trial of each form may take.
const SHARE: f64 = 0.05;
/// The number of updates of a form's autoencoder, if there is enough time.
const UPDATES: usize = 400;

/// The possible forms besides whole images.
#[derive(Clone, Debug)]
pub struct Forms {
    /// The transforms that are applied to every image first.
    pub transforms: Transforms,
    /// The side and settings of requested tiles; `None` to use tiles that fit the images.
    pub tiles: Option<(usize, Tiles)>,
    /// The number of largest tile energies that an image's score is the mean of.
    pub top_k: usize,
    /// The frozen network, with the channels and the side of its input images.
    pub features: Option<(FeatureSettings, (usize, usize))>,
    /// Whether reading for training skips images that are smaller than a tile.
    pub corrupt: Corrupt,
}

/// The form that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The form.
    pub form: Form,
    /// The reasons, one sentence each.
    pub said: Vec<String>,
    /// What affects how far a model in this form can be trusted, one sentence each.
    pub warnings: Vec<String>,
}

impl Chosen {
    /// Whole images, without a trial.
    fn whole(said: Vec<String>) -> Self {
        Self { form: Form::Whole, said, warnings: Vec::new() }
    }
}

/// A form of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole image, reduced in size.
    Whole,
    /// Tiles with the given side in pixels.
    Tiles(usize, Tiles),
    /// Features of the frozen network.
    Features,
}

/// An error that prevents the choice of a form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// The images cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// There are no settings for a form.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No engine supports a form's network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// A form cannot be tried.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// Returns the best form for the images at `path`. If the run's `time` is given,
/// each trial takes a small share of it; otherwise the trial makes the same number of updates on every machine.
///
/// # Errors
/// [`FormError`] if the images cannot be read or a form cannot be tried.
pub fn best(
    path: &Path,
    forms: &Forms,
    engines: EngineChoice,
    device: &Device,
    time: Option<Duration>,
    seed: u64,
) -> Result<Chosen, FormError> {
    let mut originals = originals(path, IMAGES, trial::MIN_IMAGES)?;
    if let Some((side, _)) = forms.tiles {
        // Reading for training skips these images too, as long as they are few.
        originals.retain(|(height, width)| height.min(width) >= side);
    }
    let whole = |said: String| Ok(Chosen::whole(vec![said]));
    let Some((height, width)) = originals.median_size() else {
        let said = forms
            .tiles
            .map(|(side, _)| format!("form: whole images; none is large enough for a tile of {side}x{side}"));
        return Ok(Chosen::whole(said.into_iter().collect()));
    };
    let side = largest_side(height.min(width));
    let lost = detail_lost(&originals.images, side);
    if forms.features.is_none() && forms.tiles.is_none() && lost < DETAIL {
        return Ok(Chosen::whole(Vec::new()));
    }
    // Tiles of reduced images would show other content, and images that are cut into tiles keep their size.
    let (are_smaller, are_fitted) = (originals.are_smaller(), changes_size(&forms.transforms));
    let tiles = match forms.tiles {
        _ if are_smaller || are_fitted => None,
        Some((side, tiles)) => (all_values(&originals, side, tiles.stride) <= MOST_VALUES).then_some((side, tiles)),
        None => fitting(&originals, forms.top_k, forms.corrupt),
    };
    let large = |side: usize| originals.sizes.iter().filter(|&&(height, width)| height.min(width) >= side).count();
    // Small images are left out for tiles, but not so many that no form can be tried.
    let tiles = tiles.filter(|&(side, _)| large(side) >= trial::MIN_IMAGES || large(side) == originals.sizes.len());
    if let Some((side, _)) = tiles {
        originals.retain(|(height, width)| height.min(width) >= side);
    }
    let of = format!("at {side}x{side} pixels, images lose {:.0}% of their variance", 100.0 * lost);
    let (count, channels) = (originals.images.len(), originals.channels());
    let Some(trial) = Trial::new(originals.images, seed) else {
        let fewest = trial::MIN_IMAGES;
        return whole(format!(
            "form: whole images; {of}, and fewer than {fewest} images are too few to compare forms by"
        ));
    };
    let candidates = drafts((count, channels), side, tiles, forms)?;
    if candidates.len() == 1 {
        let tiles = if are_fitted {
            "--fit changes their size, and tiles keep it: leave --fit out, or give --features"
        } else if forms.tiles.is_some() && !are_smaller {
            "they have too many such tiles: give a larger --stride"
        } else if are_smaller {
            "they are too large to try tiles of them: give --form tiles and --tile, or --features"
        } else {
            "tiles do not fit them: give --tile, or --features"
        };
        return whole(format!("form: whole images; {of}, but {tiles}"));
    }
    let effort = Effort { updates: UPDATES, time: time.map(|time| time.mul_f64(SHARE)) };
    let mut tried = Vec::new();
    for (form, draft) in candidates {
        let engine = engines.engine(draft.architecture())?;
        tried.push((form, trial.judge(&draft, engine, device, effort)?));
    }
    // The difference between a form's mean AUROC and its margin; whole images have no margin.
    let lead = |(form, verdict): &(Form, Verdict)| verdict.mean() - margin(*form);
    let (form, verdict) = tried.iter().max_by(|a, b| lead(a).total_cmp(&lead(b))).expect("whole images are among them");
    let (form, mean) = (*form, verdict.mean());
    let (train, judged) = trial.counts();
    let mut said = vec![format!(
        "form: {}, chosen by synthetic defects in {judged} images after a trial on {train}, taken from all images, also those \
         for calibration and test; {of}",
        title(form, side)
    )];
    said.extend(tried.iter().map(|(form, verdict)| describe(*form, side, verdict)));
    if are_fitted {
        said.push("tiles were not tried: --fit changes the images' size, and tiles keep it".into());
    } else if are_smaller && forms.tiles.is_some() {
        said.push("tiles were not tried, the images are too large for that: --form tiles takes them".into());
    } else if tiles.is_none() && forms.tiles.is_some() {
        said.push("tiles were not tried, the images have too many of them: give a larger --stride".into());
    }
    let better = tried.iter().filter(|(_, other)| other.mean() > mean);
    said.extend(better.map(|(other, _)| {
        let (title, margin) = (title(*other, side), margin(*other));
        format!("{title} have a higher mean AUROC, but were not chosen: they take longer to compute, and must lead by {margin}")
    }));
    let judged = verdict.epochs >= ENOUGH;
    let poor = (judged && mean < POOR && forms.features.is_none()).then(|| {
        format!(
            "synthetic defects in the images are detected poorly in every form that was tried (mean AUROC {mean:.3}, where .5 is \
             chance), so that small defects will be missed: features of a frozen network may be better (--features)"
        )
    });
    Ok(Chosen { form, said, warnings: poor.into_iter().collect() })
}

/// Whether `transforms` change the size of images, so that they cannot be cut into tiles.
pub(crate) fn changes_size(transforms: &Transforms) -> bool {
    transforms.crop.is_some() || transforms.fit != Fit::Stretch
}

/// The margin by which a form's mean AUROC must exceed that of whole images.
fn margin(form: Form) -> f64 {
    match form {
        Form::Whole => 0.0,
        Form::Tiles(..) => MARGIN_OF_TILES,
        Form::Features => MARGIN_OF_FEATURES,
    }
}

/// The first tiles that all images are large enough for, or all but some few, with few enough of them.
fn fitting(originals: &Originals, top_k: usize, corrupt: Corrupt) -> Option<(usize, Tiles)> {
    let mut sides: Vec<usize> = originals.sizes.iter().map(|&(height, width)| height.min(width)).collect();
    sides.sort_unstable();
    let smaller = if corrupt == Corrupt::Skip { sides.len() / SMALLER } else { 0 };
    let least = *sides.get(smaller)?;
    TILES.into_iter().find_map(|(side, stride)| {
        let fits = side < least
            && most_tiles(originals, side, stride) <= MOST_TILES
            && all_values(originals, side, stride) <= MOST_VALUES;
        fits.then_some((side, Tiles { stride, top_k }))
    })
}

/// The number of tiles of the image that has the most. Images that are smaller than a tile are left out.
fn most_tiles(originals: &Originals, side: usize, stride: usize) -> usize {
    let tile = Shape::new(1, side, side);
    let large = originals.sizes.iter().filter(|&&(height, width)| height.min(width) >= side);
    let counts = large.map(|&(height, width)| {
        Grid::new(Shape::new(1, height, width), tile, stride).map_or(usize::MAX, |grid| grid.len())
    });
    counts.max().unwrap_or(0)
}

/// The number of values of all tiles, if every image has as many as that with the most.
fn all_values(originals: &Originals, side: usize, stride: usize) -> usize {
    let of_an_image = most_tiles(originals, side, stride).saturating_mul(side * side * originals.channels());
    of_an_image.saturating_mul(originals.all)
}

/// The settings for each form of `count` images with `channels`, starting with whole images.
fn drafts(
    (count, channels): (usize, usize),
    side: usize,
    tiles: Option<(usize, Tiles)>,
    forms: &Forms,
) -> Result<Vec<(Form, Config)>, PlanError> {
    let own = |channels, side, tiles| OwnImages { title: "images of the trial".to_owned(), channels, side, tiles };
    let mut drafts = vec![(Form::Whole, plan::draft(&own(channels, side, None), forms.transforms, count)?)];
    if let Some((side, tiles)) = tiles {
        let draft = plan::draft(&own(channels, side, Some(tiles)), forms.transforms, count)?;
        drafts.push((Form::Tiles(side, tiles), draft));
    }
    if let Some((settings, (channels, side))) = &forms.features {
        let own = own(*channels, *side, None);
        drafts.push((Form::Features, plan::draft_features(&own, settings.clone(), forms.transforms, count)?));
    }
    Ok(drafts)
}

fn title(form: Form, side: usize) -> String {
    match form {
        Form::Whole => format!("whole images at {side}x{side}"),
        Form::Tiles(side, Tiles { stride, .. }) => format!("tiles of {side}x{side} pixels, {stride} apart"),
        Form::Features => "features of the frozen network".to_owned(),
    }
}

fn describe(form: Form, side: usize, verdict: &Verdict) -> String {
    let kinds: Vec<String> =
        verdict.auroc.iter().map(|(defect, auroc)| format!("{} {auroc:.3}", defect.name())).collect();
    format!(
        "trial of {}: mean AUROC {:.3} ({}) after {}{}",
        title(form, side),
        verdict.mean(),
        kinds.join(", "),
        counted(verdict.epochs, "epoch"),
        if verdict.epochs < ENOUGH {
            ", too few to judge it by: more time (--time-budget) may decide otherwise"
        } else {
            ""
        }
    )
}

#[cfg(test)]
mod tests {
    use nae_input::Pixels;

    use super::*;

    fn grey(height: usize, width: usize, all: usize) -> Originals {
        let shape = Shape::new(1, height, width);
        let images = vec![Pixels { shape, values: vec![0.5; shape.len()] }];
        Originals { images, sizes: vec![(height, width)], all }
    }

    #[test]
    fn tiles_fit_the_images_and_the_memory() {
        let tiles = |height, width, all| fitting(&grey(height, width, all), 3, Corrupt::Skip);
        assert_eq!(tiles(200, 200, 1500), Some((32, Tiles { stride: 16, top_k: 3 })));
        // An image of 384 pixels has 529, 225 and 121 tiles of 32, 48 and 64 pixels; one of 1,000 has 169 of 80.
        assert_eq!(tiles(384, 384, 500), Some((64, Tiles { stride: 32, top_k: 3 })));
        assert_eq!(tiles(1000, 1000, 100), Some((80, Tiles { stride: 80, top_k: 3 })));
        // Too small for any tile, too large for all, too many for the memory.
        assert_eq!(tiles(32, 100, 100), None);
        assert_eq!(tiles(4000, 4000, 100), None);
        assert_eq!(tiles(200, 200, 1_000_000), None);
        // One of 21 images is left out, two are not; none is if small images are refused.
        let some = |smaller: usize, corrupt| {
            let mut all = grey(200, 200, 21);
            all.sizes = [vec![(10, 10); smaller], vec![(200, 200); 21 - smaller]].concat();
            fitting(&all, 3, corrupt).map(|(side, _)| side)
        };
        assert_eq!([some(1, Corrupt::Skip), some(2, Corrupt::Skip), some(1, Corrupt::Refuse)], [Some(32), None, None]);
    }
}
